<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

/** A request with a body, and a form in it. */
final class RequestWithBodyTest extends RequestTest
{
    protected static function asked(): array
    {
        return ['GET', '/', ['Cookie' => 'a=b'], 'a body'];
    }
}
