<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

/** A request with a body, which is one of the library's from the start. */
final class RequestWithBodyTest extends RequestTest
{
    protected static function asked(): array
    {
        return ['GET', '/', ['Cookie' => 'a=b'], 'a body'];
    }
}
