<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * A handler of a framework that is under way. It goes with the handler, which exit() leaves without a `finally`.
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

    /** How many there are, of handlers that do not have the superglobals. */
    public static function underWay(): int
    {
        return self::$underWay;
    }

    public function __destruct()
    {
        self::$underWay--;
    }
}
