<?php

declare(strict_types=1);

namespace Chat;

final readonly class Message
{
    /**
     * @param ?User $to      null = everyone
     * @param bool  $offline true if the recipient had no tab open when the message was sent
     */
    public function __construct(
        public int $id,
        public User $from,
        public ?User $to,
        public string $text,
        public string $key,
        public bool $offline,
        public int $timeMs,
    ) {
    }

    /**
     * Returns the message in the format for pages.
     *
     * @param ?int $previous id of the preceding message in the same channel; a page that lacks it fetches it
     * @return array<string, mixed>
     */
    public function toArray(?int $previous = null): array
    {
        $data = [
            'id' => $this->id,
            'from' => $this->from->toArray(),
            'to' => $this->to?->toArray(),
            'text' => $this->text,
            'key' => $this->key,
            'offline' => $this->offline,
            'timeMs' => $this->timeMs,
        ];

        return $previous === null ? $data : ['previous' => $previous] + $data;
    }
}
