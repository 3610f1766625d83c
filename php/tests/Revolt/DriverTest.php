<?php

declare(strict_types=1);

namespace Fermata\Tests\Revolt;

use Fermata\Poll;
use Fermata\Revolt\Driver;
use Revolt\EventLoop\Driver\DriverTest as Contract;

/** Revolt's tests for its own drivers. scripts/revolt.sh runs them. */
final class DriverTest extends Contract
{
    public function getFactory(): callable
    {
        return static fn (): Driver => new Driver();
    }

    public function testHandle(): void
    {
        self::assertInstanceOf(Poll::class, $this->loop->getHandle());
    }
}
