<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\WebSocket\{CloseCode, Codec, Frame, Opcode};

/** The client's end of a WebSocket to a server in the test's process: see TestApplication::webSocket(). */
final class TestSocket
{
    private string $inbox = '';

    /** @var list<Frame> received frames that were not returned yet */
    private array $frames = [];
    private ?Frame $close = null;
    private bool $hasEnded = false;
    private bool $isEstablished = false;

    /** Subprotocol that the server selected. Null if it selected none. */
    public readonly ?string $protocol;

    /** @var resource|null */
    private $stream;

    /**
     * @param resource $stream connection on which the handshake was sent
     * @param \Closure(): mixed $run runs the server
     * @throws Refused
     * @internal see TestApplication
     */
    public function __construct($stream, string $key, private readonly \Closure $run)
    {
        $this->stream = $stream;
        $this->read();
        $end = strpos($this->inbox, "\r\n\r\n");
        $head = $end === false ? '' : substr($this->inbox, 0, $end);
        if (!str_starts_with($head, 'HTTP/1.1 101 ')) {
            throw new Refused((new Exchange($stream, 'GET', $run, null, $this->inbox))->answer());
        }
        $this->inbox = substr($this->inbox, (int) $end + 4);
        $headers = [];
        foreach (array_slice(explode("\r\n", $head), 1) as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower($name)] = trim($value);
        }
        if (($headers['sec-websocket-accept'] ?? '') !== Codec::acceptKey($key)) {
            throw new \RuntimeException('the server has answered another handshake');
        }
        $this->protocol = $headers['sec-websocket-protocol'] ?? null;
        $this->isEstablished = true;
    }

    /** Sends a text message and runs its handler. */
    public function send(string $text): void
    {
        $this->sendFrame(Codec::encode($text, Opcode::Text, masked: true));
    }

    public function sendBinary(string $data): void
    {
        $this->sendFrame(Codec::encode($data, Opcode::Binary, masked: true));
    }

    /** Sends raw bytes, to test violations of the protocol. */
    public function sendFrame(string $bytes): void
    {
        if ($this->stream === null) {
            throw new \LogicException('the connection has ended');
        }
        for ($sent = 0; $sent < strlen($bytes); $sent += $taken) {
            $taken = (int) @fwrite($this->stream, substr($bytes, $sent));
            ($this->run)();
            if ($taken === 0) {
                throw new \RuntimeException('the server does not read what is sent, or has closed the connection');
            }
        }
    }

    /** Returns the next received text or binary message. Returns null if there is none. */
    public function receive(): ?string
    {
        for ($message = null; ($frame = $this->nextFrame()) !== null;) {
            if (in_array($frame->opcode, [Opcode::Text, Opcode::Binary, Opcode::Continuation], true)) {
                $message .= $frame->payload;
                if ($frame->fin) {
                    return $message;
                }
            }
        }
        return null;
    }

    /** Returns the next received frame of any type except Close. Returns null if there is none. */
    public function nextFrame(): ?Frame
    {
        $this->read();
        return array_shift($this->frames);
    }

    /** Sends a Close frame and runs the close handler. */
    public function close(CloseCode|int $code = CloseCode::Normal, string $reason = ''): void
    {
        if ($this->isOpen()) {
            $this->sendFrame(Codec::encodeClose($code, $reason, masked: true));
            $this->read();
        }
        $this->leave();
    }

    /** Closes the connection without a Close frame, like a network failure. */
    public function leave(): void
    {
        if ($this->stream !== null) {
            fclose($this->stream);
            $this->stream = null;
            ($this->run)();
        }
    }

    public function isOpen(): bool
    {
        $this->read();
        return $this->stream !== null && !$this->hasEnded && $this->close === null;
    }

    /**
     * Returns the server's close code. The code is 1005 if the server sent none, and 1006 if the connection was closed without a
     * Close frame. Returns null while the connection is open.
     */
    public function closeCode(): ?int
    {
        $this->read();
        return $this->close !== null ? $this->close->closeCode ?? CloseCode::NoStatus->value : ($this->hasEnded ? CloseCode::Abnormal->value : null);
    }

    public function closeReason(): string
    {
        $this->read();
        return $this->close->closeReason ?? '';
    }

    /** Reads the frames that the server has sent. */
    private function read(): void
    {
        if ($this->stream === null) {
            return;
        }
        ($this->run)();
        while (($bytes = (string) fread($this->stream, 65536)) !== '') {
            $this->inbox .= $bytes;
            ($this->run)();
        }
        $this->hasEnded = feof($this->stream);
        if ($this->isEstablished) {
            $this->decode();
        }
    }

    private function decode(): void
    {
        while ($this->inbox !== '' && ($frame = Codec::decode($this->inbox, masked: false)) !== null) {
            $this->inbox = substr($this->inbox, $frame->bytesConsumed);
            if ($frame->opcode === Opcode::Close) {
                $this->close = $frame;
            } else {
                $this->frames[] = $frame;
            }
        }
    }
}
