<?php

declare(strict_types=1);

namespace Chat;

final readonly class Message
{
    /**
     * @param ?User $to      null = everyone
     * @param bool  $offline the recipient had no tab open when it was sent
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
     * What pages get.
     *
     * @param ?int $previous id of the message before it in the same channel: a page that does not have it fetches it
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
