<?php

declare(strict_types=1);

namespace Chat;

final readonly class User
{
    /** @param int $seenId id of the newest message that a tab of the user has shown; newer private messages are undelivered */
    public function __construct(public int $id, public string $name, public int $seenId = 0)
    {
    }

    /** Returns the channel of this user's tabs. */
    public function channel(): string
    {
        return Doors::PREFIX . "user.$this->id";
    }

    /** @return array{id: int, name: string} */
    public function toArray(): array
    {
        return ['id' => $this->id, 'name' => $this->name];
    }
}
