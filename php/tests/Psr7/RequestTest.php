<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

use Fermata\Psr15\Factories;
use Http\Psr7Test\ServerRequestIntegrationTest;
use Psr\Http\Message\ServerRequestInterface;

/** A request without a body. The library creates it only if a test changes more than attributes. */
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
        // The tests compare copies by their properties, which change when a part is created on first use. Create the parts now.
        $this->given->getUri();
        $this->given->getBody();
        return $this->given;
    }

    protected function own(): ?ServerRequestInterface
    {
        return Factories::find()->requests->createServerRequest('GET', 'http://localhost/', $_SERVER)->withCookieParams($_COOKIE);
    }
}
