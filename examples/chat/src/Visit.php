<?php

declare(strict_types=1);

namespace Chat;

/** Data of one WebSocket: its session, and whether the page has sent `hello`. */
final class Visit
{
    public bool $isWelcome = false;

    public function __construct(public readonly Session $session)
    {
    }
}
