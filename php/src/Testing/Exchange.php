<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** A test request on a separate connection. The response can be read completely or while it arrives. */
final class Exchange
{
    /** @var resource|null */
    private $stream;
    private string $body = '';
    private bool $isChunked = false;
    private ?int $left = null;
    private ?string $lastId = null;
    private bool $hasEnded = false;

    public readonly int $status;

    /** @var array<string, list<string>> by lower-case name */
    public readonly array $headers;

    /**
     * @param resource $stream connection on which the request was sent
     * @param (\Closure(): mixed)|null $run runs a server in the test's process; the stream is then non-blocking
     * @param array{channels: list<string>, since: ?string, user: ?string, info: ?string, announces: bool, keepAlive: ?int, closesOnGap: bool}|null $hold
     * @param string $inbox response bytes that were already read
     * @internal see TestServer and TestApplication
     */
    public function __construct(
        $stream,
        string $method,
        private readonly ?\Closure $run = null,
        public readonly ?array $hold = null,
        private string $inbox = '',
    ) {
        $this->stream = $stream;
        $this->readHead($method);
    }

    public function answer(): Answer
    {
        while ($this->readMore()) {
        }
        return new Answer($this->status, $this->headers, $this->body);
    }

    /** Reads until the received part of the body contains the text. */
    public function waitFor(string $text): string
    {
        while (!str_contains($this->body, $text)) {
            if (!$this->readMore()) {
                throw new \RuntimeException("the answer has ended without $text: $this->body");
            }
        }
        return $this->body;
    }

    /** Returns the data of the next server-sent event; null if the stream has ended. */
    public function event(): ?string
    {
        return $this->nextEvent()['data'] ?? null;
    }

    /** Returns the received bytes that were not returned as events, such as comments. */
    public function received(): string
    {
        while ($this->hasMore(0.0) && $this->readMore()) {
        }
        return $this->body;
    }

    /**
     * Returns the next server-sent event; null if the stream has ended.
     *
     * @return array{id: ?string, event: string, data: string}|null
     */
    public function nextEvent(): ?array
    {
        while (($event = $this->takeEvent()) === null) {
            if (!$this->readMore()) {
                return null;
            }
        }
        return $event;
    }

    /** Returns the Last-Event-ID that a reconnecting browser would send. Returns null if the stream contained no id. */
    public function lastEventId(): ?string
    {
        return $this->lastId;
    }

    /**
     * Returns the next server-sent event. Returns null if no event arrives within the given time.
     *
     * @return array{id: ?string, event: string, data: string}|null
     */
    public function eventWithin(float $seconds): ?array
    {
        $deadline = microtime(true) + $seconds;
        do {
            $event = $this->takeEvent();
        } while ($event === null && $this->hasMore(max(0.0, $deadline - microtime(true))) && $this->readMore());
        return $event;
    }

    /** Returns true if the response has not ended yet. This method never blocks. */
    public function isOpen(): bool
    {
        while ($this->hasMore(0.0)) {
            if (!$this->readMore()) {
                return false;
            }
        }
        return $this->stream !== null && $this->left !== 0 && !$this->hasEnded;
    }

    /** @return array{id: ?string, event: string, data: string}|null null: no complete event was received */
    private function takeEvent(): ?array
    {
        while (($end = strpos($this->body, "\n\n")) !== false) {
            $lines = substr($this->body, 0, $end);
            $this->body = substr($this->body, $end + 2);
            if (preg_match('/^id: ?(.*)$/m', $lines, $found)) {
                $this->lastId = $found[1];
            }
            if (preg_match_all('/^data: ?(.*)$/m', $lines, $data) > 0) {
                $name = preg_match('/^event: ?(.*)$/m', $lines, $found) ? $found[1] : 'message';
                return ['id' => $this->lastId, 'event' => $name, 'data' => implode("\n", $data[1])];
            }
        }
        return null;
    }

    /** Returns true if bytes or the end of the response can be read within the given time. */
    private function hasMore(float $seconds): bool
    {
        if ($this->stream === null || $this->left === 0 || $this->hasEnded) {
            return false;
        }
        if ($this->run !== null) {
            ($this->run)();
            $seconds = 0.0;
        }
        $read = [$this->stream];
        $none = null;
        return $this->inbox !== '' || stream_select($read, $none, $none, 0, (int) ($seconds * 1e6)) > 0;
    }

    /** Closes the connection without reading the rest. */
    public function close(): void
    {
        if ($this->stream !== null) {
            fclose($this->stream);
            $this->stream = null;
        }
    }

    private function readHead(string $method): void
    {
        $lines = explode("\r\n", $this->until("\r\n\r\n"));
        $status = (int) (explode(' ', array_shift($lines))[1] ?? 0);
        $headers = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower($name)][] = trim($value);
        }
        $this->status = $status;
        $this->headers = $headers;
        $this->isChunked = ($headers['transfer-encoding'][0] ?? '') === 'chunked';
        $length = $headers['content-length'][0] ?? null;
        $isEmpty = $method === 'HEAD' || $status === 204 || $status === 304;
        $this->left = $isEmpty ? 0 : ($length === null ? null : (int) $length);
        $this->isChunked = $this->isChunked && !$isEmpty;
    }

    /** Returns false at the end of the response. */
    private function readMore(): bool
    {
        if ($this->isChunked) {
            $size = (int) hexdec($this->until("\r\n"));
            $this->body .= $this->take($size);
            $this->take(2);
            $this->isChunked = $size > 0;
            $this->left = $size > 0 ? null : 0;
            return $size > 0;
        }
        if ($this->left === 0) {
            return false;
        }
        if ($this->inbox === '' && !$this->fill(mayEnd: $this->left === null)) {
            $this->hasEnded = true;
            return false;
        }
        $piece = $this->left === null ? $this->inbox : substr($this->inbox, 0, $this->left);
        $this->inbox = substr($this->inbox, strlen($piece));
        $this->body .= $piece;
        $this->left = $this->left === null ? null : $this->left - strlen($piece);
        return true;
    }

    private function until(string $end): string
    {
        while (($at = strpos($this->inbox, $end)) === false) {
            $this->fill();
        }
        $taken = substr($this->inbox, 0, $at);
        $this->inbox = substr($this->inbox, $at + strlen($end));
        return $taken;
    }

    private function take(int $bytes): string
    {
        while (strlen($this->inbox) < $bytes) {
            $this->fill();
        }
        $taken = substr($this->inbox, 0, $bytes);
        $this->inbox = substr($this->inbox, $bytes);
        return $taken;
    }

    private function fill(bool $mayEnd = false): bool
    {
        $bytes = $this->stream === null ? false : fread($this->stream, 65536);
        if ($bytes === '' && $this->run !== null && $this->stream !== null && !feof($this->stream)) {
            ($this->run)();
            $bytes = fread($this->stream, 65536);
        }
        if ($bytes === '' || $bytes === false) {
            if ($mayEnd && $this->stream !== null && feof($this->stream)) {
                return false;
            }
            if ($this->run !== null && $this->stream !== null && !feof($this->stream)) {
                throw new \RuntimeException('there is no more of the answer at this time; a handler that waits for a time goes on with advance(), between send() and answer()');
            }
            throw new \RuntimeException('the answer did not come whole: the connection has ended or timed out');
        }
        $this->inbox .= $bytes;
        return true;
    }
}
