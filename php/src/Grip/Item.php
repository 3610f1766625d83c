<?php

declare(strict_types=1);

namespace Fermata\Grip;

/**
 * One message to publish, with its content for each transport.
 *
 * `stream` is sent to held streams, `response` is the response to long polls, and `message` is sent to WebSockets. Clients of a
 * transport whose content is null receive nothing.
 */
final readonly class Item
{
    /**
     * @param array<string, string> $meta metadata for filters, such as `sender` and `skip_users`
     * @param array<string, string> $headers headers of the response to long polls
     * @param string|null $id id of the item; an edge delivers each id once per channel
     * @param string|null $previousId id of the preceding item, by which an edge restores the order
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

    /** Returns an item for browsers. Streams receive an SSE event, and other transports receive the data of that event. */
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

    /** Returns an item that closes streams and WebSockets. */
    public static function close(): self
    {
        return new self(close: true);
    }

    /** Returns an item that makes the edge request new content from the backend: a stream's next link, or a long poll's URL. */
    public static function hint(): self
    {
        return new self(hint: true);
    }

    /**
     * Returns the item in the JSON format of control ports.
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

    /**
     * Returns the item as an event for a Fermata server, which encodes the event itself. Returns null if event() did not create the
     * item.
     */
    public function toEvent(): ?\Fermata\Event
    {
        return $this->eventData === null ? null : new \Fermata\Event($this->eventData, $this->eventName);
    }

    /** @return array<string, string> */
    private static function content(string $bytes, string $name): array
    {
        // Bytes that are not UTF-8 are sent as base64 in a separate field.
        return preg_match('//u', $bytes) === 1 ? [$name => $bytes] : ["$name-bin" => base64_encode($bytes)];
    }
}
