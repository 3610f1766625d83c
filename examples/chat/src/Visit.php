<?php

declare(strict_types=1);

namespace Chat;

/** What belongs to one WebSocket: whose it is, and whether its page has said hello. */
final class Visit
{
    public bool $isWelcome = false;

    public function __construct(public readonly Session $session)
    {
    }
}
