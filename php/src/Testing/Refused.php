<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** A server has refused a WebSocket of a test. */
final class Refused extends \RuntimeException
{
    public function __construct(public readonly Answer $answer)
    {
        parent::__construct("the WebSocket was refused with {$answer->status}: $answer->body");
    }
}
