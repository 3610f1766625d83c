<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

/**
 * Point in time at which an operation fails.
 *
 * @internal
 */
final readonly class Deadline
{
    private int $at;

    public function __construct(private float $seconds)
    {
        $this->at = hrtime(true) + (int) ($seconds * 1e9);
    }

    /** Returns the remaining seconds; 0 after the deadline. */
    public function left(): float
    {
        return max(0.0, ($this->at - hrtime(true)) / 1e9);
    }

    public function isOver(): bool
    {
        return hrtime(true) >= $this->at;
    }

    /** Sleeps for the given number of seconds, but at most until the deadline. */
    public function pause(float $seconds): void
    {
        usleep((int) (min($seconds, $this->left()) * 1e6));
    }

    public function text(): string
    {
        return rtrim(rtrim(sprintf('%.2F', $this->seconds), '0'), '.');
    }
}
