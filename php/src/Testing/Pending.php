<?php

declare(strict_types=1);

namespace Fermata\Testing;

/** A request of a test that was sent on a connection of its own, and whose answer is read later. */
final class Pending
{
    /** @var resource|null */
    private $stream;

    /**
     * @param string $address as stream_socket_client() takes it
     * @param array<string, string|int|list<string>> $headers
     * @param float $timeout seconds that any single read may take
     * @internal see TestServer
     */
    public function __construct(string $address, private readonly string $method, string $target, array $headers, string $body, float $timeout)
    {
        $stream = @stream_socket_client($address, $code, $message, $timeout);
        if ($stream === false) {
            throw new \RuntimeException("the server at $address cannot be reached: $message");
        }
        stream_set_timeout($stream, (int) ceil($timeout));
        $this->stream = $stream;
        $head = "$method $target HTTP/1.1\r\nConnection: close\r\n";
        $headers += ['Host' => substr($address, strlen('tcp://'))];
        if ($body !== '') {
            $headers += ['Content-Length' => strlen($body)];
        }
        foreach ($headers as $name => $values) {
            foreach ((array) $values as $value) {
                $head .= "$name: $value\r\n";
            }
        }
        fwrite($stream, "$head\r\n$body");
    }

    /** Waits for the head of the answer; what comes after it is read from the exchange. */
    public function open(): Exchange
    {
        if ($this->stream === null) {
            throw new \LogicException('the answer was opened before, or the client has left');
        }
        $stream = $this->stream;
        $this->stream = null;
        return new Exchange($stream, $this->method);
    }

    /** Waits for the whole answer. */
    public function answer(): Answer
    {
        return $this->open()->answer();
    }

    /** Leaves without an answer. */
    public function close(): void
    {
        if ($this->stream !== null) {
            fclose($this->stream);
            $this->stream = null;
        }
    }
}
