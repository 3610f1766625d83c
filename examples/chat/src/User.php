<?php

declare(strict_types=1);

namespace Chat;

final readonly class User
{
    /** @param int $seenId newest message any of the user's tabs has shown; what is private and newer has yet to be delivered */
    public function __construct(public int $id, public string $name, public int $seenId = 0)
    {
    }

    /** The channel only this user's tabs listen to. */
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
