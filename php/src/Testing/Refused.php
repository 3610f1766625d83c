<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** Thrown if the server refuses a test's WebSocket handshake. */
final class Refused extends \RuntimeException
{
    public function __construct(public readonly Answer $answer)
    {
        parent::__construct("the WebSocket was refused with {$answer->status}: $answer->body");
    }
}
