<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

use Fermata\Psr15\Factories;
use Http\Psr7Test\ServerRequestIntegrationTest;
use Psr\Http\Message\ServerRequestInterface;

/** A request without a body, which the bridge has the library make when more than its attributes is changed. */
class RequestTest extends ServerRequestIntegrationTest
{
    use InHandler;

    protected $skippedTests = [
        'testGetAttributes' => 'the attribute Fermata\Request is the server\'s own request',
        'testUriPreserveHost_NoHost_Host' => 'a request that a server has got names a host',
    ];

    protected static function asked(): array
    {
        return ['GET', '/', [], ''];
    }

    public function createSubject()
    {
        // The tests compare copies by what they keep, which differs when one has been asked for its parts and the other has not.
        $this->given->getUri();
        $this->given->getBody();
        return $this->given;
    }

    protected function own(): ?ServerRequestInterface
    {
        return Factories::find()->requests->createServerRequest('GET', 'http://localhost/', $_SERVER)->withCookieParams($_COOKIE);
    }
}
