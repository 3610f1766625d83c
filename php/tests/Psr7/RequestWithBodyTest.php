<?php

declare(strict_types=1);

namespace Fermata\Tests\Psr7;

/** A request whose body is a form. */
final class RequestWithBodyTest extends RequestTest
{
    protected static function asked(): array
    {
        return ['GET', '/', ['Cookie' => 'a=b'], 'a body'];
    }
}
