<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** A test request that was sent on a separate connection and whose response is read later. */
final class Pending
{
    /** @var resource|null */
    private $stream;

    /**
     * @param resource $stream connection on which the request was sent
     * @param (\Closure(): mixed)|null $run runs a server in the test's process
     * @param (\Closure(): (array{channels: list<string>, since: ?string, user: ?string, info: ?string, announces: bool, keepAlive: ?int, closesOnGap: bool}|null))|null $hold returns the parameters of the client's hold
     * @internal see TestServer and TestApplication
     */
    public function __construct(
        $stream,
        private readonly string $method,
        private readonly ?\Closure $run = null,
        private readonly ?\Closure $hold = null,
    ) {
        $this->stream = $stream;
    }

    /**
     * @param string $address address for stream_socket_client()
     * @param array<string, string|int|list<string>> $headers
     * @param float $timeout maximum seconds of a single read
     * @internal see TestServer
     */
    public static function to(string $address, string $method, string $target, array $headers, string $body, float $timeout): self
    {
        $stream = @stream_socket_client($address, $code, $message, $timeout);
        if ($stream === false) {
            throw new \RuntimeException("the server at $address cannot be reached: $message");
        }
        stream_set_timeout($stream, (int) ceil($timeout));
        fwrite($stream, self::text($method, $target, $headers + ['Host' => substr($address, strlen('tcp://'))], $body));
        return new self($stream, $method);
    }

    /**
     * Encodes a request.
     *
     * @param array<string, string|int|list<string>> $headers
     * @internal see TestServer and TestApplication
     */
    public static function text(string $method, string $target, array $headers, string $body): string
    {
        $head = "$method $target HTTP/1.1\r\n";
        $headers += ['Connection' => 'close'];
        if ($body !== '') {
            $headers += ['Content-Length' => strlen($body)];
        }
        foreach ($headers as $name => $values) {
            foreach ((array) $values as $value) {
                $head .= "$name: $value\r\n";
            }
        }
        return "$head\r\n$body";
    }

    /** Returns true if the response has started to arrive, or the server has closed the connection. */
    public function isAnswered(): bool
    {
        if ($this->stream === null) {
            throw new \LogicException('the answer was opened before, or the client has left');
        }
        if ($this->run !== null) {
            ($this->run)();
        }
        $read = [$this->stream];
        $none = null;
        return stream_select($read, $none, $none, 0) === 1;
    }

    /** Waits for the response's header section. Read the rest from the returned exchange. */
    public function open(): Exchange
    {
        if ($this->stream === null) {
            throw new \LogicException('the answer was opened before, or the client has left');
        }
        $stream = $this->stream;
        $this->stream = null;
        if ($this->run !== null) {
            ($this->run)();
        }
        return new Exchange($stream, $this->method, $this->run, $this->hold === null ? null : ($this->hold)());
    }

    /** Waits for the complete response. */
    public function answer(): Answer
    {
        return $this->open()->answer();
    }

    /** Closes the connection without reading a response. */
    public function close(): void
    {
        if ($this->stream !== null) {
            fclose($this->stream);
            $this->stream = null;
        }
    }
}
