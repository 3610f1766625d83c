<?php

declare(strict_types=1);

namespace Fermata\Grip;

/**
 * What is published: one message, in the form of each transport that should get it.
 *
 * Held streams get `stream`, long polls are answered with `response`, WebSockets get `message`; what is null is not
 * sent to clients of that transport.
 */
final readonly class Item
{
    /**
     * @param array<string, string> $meta what filters know of the item: `sender`, `skip_users` and others
     * @param array<string, string> $headers of the answer to long polls
     * @param string|null $id names the item; an edge delivers each id of a channel once
     * @param string|null $previousId the id of the item before it: an edge brings them into order
     */
    public function __construct(
        public ?string $stream = null,
        public ?string $response = null,
        public ?string $message = null,
        public ?string $id = null,
        public ?string $previousId = null,
        public array $meta = [],
        public array $headers = [],
        public bool $close = false,
        public bool $hint = false,
        private ?string $eventData = null,
        private ?string $eventName = null,
    ) {
        if ($stream === null && $response === null && $message === null && !$close && !$hint) {
            throw new \ValueError('an item needs a stream, response or message, or close: true or hint: true');
        }
    }

    /** An event for browsers: an SSE event on streams, its data for the others. */
    public static function event(string $data, ?string $name = null, ?string $id = null, ?string $previousId = null): self
    {
        if ($name !== null && strpbrk($name, "\r\n\0") !== false) {
            throw new \ValueError('the name of an event is one line');
        }
        if ($id !== null && strpbrk($id, "\r\n\0") !== false) {
            throw new \ValueError('the id of an event is one line');
        }
        $lines = $id === null ? '' : "id: $id\n";
        $lines .= $name === null ? '' : "event: $name\n";
        foreach (preg_split('/\r\n|\r|\n/', $data) as $line) {
            $lines .= "data: $line\n";
        }
        return new self("$lines\n", $data, $data, $id, $previousId, eventData: $data, eventName: $name);
    }

    /** The end of streams and WebSockets. */
    public static function close(): self
    {
        return new self(close: true);
    }

    /** Has clients ask their backend: streams their next link, long polls their request. */
    public static function hint(): self
    {
        return new self(hint: true);
    }

    /**
     * The item as control ports take it.
     *
     * @return array<string, mixed>
     */
    public function toArray(string $channel): array
    {
        $formats = [];
        if ($this->close) {
            $formats = ['http-stream' => ['action' => 'close'], 'ws-message' => ['action' => 'close']];
        }
        if ($this->hint) {
            $formats = ['http-response' => ['action' => 'hint'], 'http-stream' => ['action' => 'hint']];
        }
        if ($this->stream !== null) {
            $formats['http-stream'] = self::content($this->stream, 'content');
        }
        if ($this->response !== null) {
            $formats['http-response'] = self::content($this->response, 'body');
            if ($this->headers !== []) {
                $formats['http-response']['headers'] = $this->headers;
            }
        }
        if ($this->message !== null) {
            $formats['ws-message'] = self::content($this->message, 'content');
        }
        $item = ['channel' => $channel, 'formats' => $formats];
        if ($this->id !== null) {
            $item['id'] = $this->id;
        }
        if ($this->previousId !== null) {
            $item['prev-id'] = $this->previousId;
        }
        if ($this->meta !== []) {
            $item['meta'] = $this->meta;
        }
        return $item;
    }

    /** The item for workers of the extension, which write its form by themselves; null: it was no event. */
    public function toEvent(): ?\Fermata\Event
    {
        return $this->eventData === null ? null : new \Fermata\Event($this->eventData, $this->eventName);
    }

    /** @return array<string, string> */
    private static function content(string $bytes, string $name): array
    {
        // What is no text travels as base64, under a name of its own.
        return preg_match('//u', $bytes) === 1 ? [$name => $bytes] : ["$name-bin" => base64_encode($bytes)];
    }
}
