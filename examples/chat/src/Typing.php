<?php

declare(strict_types=1);

namespace Chat;

/** Limits the typing notices that this worker publishes, because every page receives each of them. */
final class Typing
{
    private const EVERY_MS = 2000;
    private const PEOPLE_MAX = 10_000;

    /** @var array<int, int> time of the last notice by user id, in Unix milliseconds */
    private array $last = [];

    public function admits(User $user): bool
    {
        $now = Clock::unixMs();
        if ($now - ($this->last[$user->id] ?? 0) < self::EVERY_MS) {
            return false;
        }
        if (count($this->last) >= self::PEOPLE_MAX) {
            $this->last = [];
        }
        $this->last[$user->id] = $now;

        return true;
    }
}
