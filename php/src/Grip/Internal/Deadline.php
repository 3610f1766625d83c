<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

/**
 * A moment by which something has to be done.
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

    /** Seconds that are left; 0 when it is over. */
    public function left(): float
    {
        return max(0.0, ($this->at - hrtime(true)) / 1e9);
    }

    public function isOver(): bool
    {
        return hrtime(true) >= $this->at;
    }

    /** Waits so long, but not beyond it. */
    public function pause(float $seconds): void
    {
        usleep((int) (min($seconds, $this->left()) * 1e6));
    }

    public function text(): string
    {
        return rtrim(rtrim(sprintf('%.2F', $this->seconds), '0'), '.');
    }
}
