<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * Counts running framework handlers. The destructor decrements the count, because exit() skips `finally` blocks.
 *
 * @internal
 */
final class Turn
{
    private static int $underWay = 0;
    private static bool $hasWarned = false;

    public function __construct()
    {
        if (++self::$underWay > 1 && !self::$hasWarned) {
            self::$hasWarned = true;
            error_log('handlers of the framework run beside each other in a worker (handlers_max): objects that they share and that keep '
                . 'something of a request show it to the others; Limits(handlers: 1) runs one at a time, and docs/psr-15.md lists what to look for');
        }
    }

    /** Returns the number of running handlers without superglobals. */
    public static function underWay(): int
    {
        return self::$underWay;
    }

    public function __destruct()
    {
        self::$underWay--;
    }
}
