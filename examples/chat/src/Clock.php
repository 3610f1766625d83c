<?php

declare(strict_types=1);

namespace Chat;

final class Clock
{
    /** Returns the Unix time in milliseconds, the chat's unit of time. */
    public static function unixMs(): int
    {
        return (int) (microtime(true) * 1000);
    }
}
