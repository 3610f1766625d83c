<?php

declare(strict_types=1);

namespace Chat;

final class Clock
{
    /** Milliseconds since 1970, the chat's unit of time everywhere. */
    public static function unixMs(): int
    {
        return (int) (microtime(true) * 1000);
    }
}
