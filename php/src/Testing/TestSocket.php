<?php

declare(strict_types=1);

namespace Fermata\Testing;

use Fermata\WebSocket\{CloseCode, Codec, Frame, Opcode};

/** The client's end of a WebSocket whose server is in the process of the test: see TestApplication::webSocket(). */
final class TestSocket
{
    private string $inbox = '';

    /** @var list<Frame> that have come and were not taken */
    private array $frames = [];
    private ?Frame $close = null;
    private bool $hasEnded = false;
    private bool $isEstablished = false;

    /** The protocol that the server has chosen; null: none. */
    public readonly ?string $protocol;

    /** @var resource|null */
    private $stream;

    /**
     * @param resource $stream on which the handshake was sent
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

    /** Sends a text, and lets its handler run. */
    public function send(string $text): void
    {
        $this->sendFrame(Codec::encode($text, Opcode::Text, masked: true));
    }

    public function sendBinary(string $data): void
    {
        $this->sendFrame(Codec::encode($data, Opcode::Binary, masked: true));
    }

    /** Sends bytes as they are, for what a client may do wrong. */
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

    /** The next text or binary message that has come; null: none has. */
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

    /** The next frame that has come, of whatever kind but a close; null: none has. */
    public function nextFrame(): ?Frame
    {
        $this->read();
        return array_shift($this->frames);
    }

    /** Closes as a client does, and lets the handler of the end run. */
    public function close(CloseCode|int $code = CloseCode::Normal, string $reason = ''): void
    {
        if ($this->isOpen()) {
            $this->sendFrame(Codec::encodeClose($code, $reason, masked: true));
            $this->read();
        }
        $this->leave();
    }

    /** Ends the connection without a word, as a network that fails. */
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

    /** What the server has closed with: 1005 when it gave no code, 1006 when the connection has ended without; null while open. */
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

    /** Takes what the server has sent. */
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
