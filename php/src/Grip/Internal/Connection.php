<?php

declare(strict_types=1);

namespace Fermata\Grip\Internal;

/**
 * A non-blocking stream socket. Connecting, reading and writing fail at the deadline.
 *
 * @internal
 */
final class Connection
{
    /** Maximum size of a response, in bytes. */
    private const ANSWER_BYTES_MAX = 65536;

    /** @var resource */
    private $socket;
    private bool $wasSent = false;

    /** @param string $url tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH */
    public function __construct(string $url, private readonly Deadline $deadline)
    {
        // The timeout does not cover the host name lookup; only the system resolver's own timeout does.
        $socket = @stream_socket_client($url, $number, $why, $deadline->left());
        if ($socket === false) {
            throw new Failure('cannot be reached: ' . self::why($why), mayHelp: true, wasSent: false);
        }
        stream_set_blocking($socket, false);
        $this->socket = $socket;
    }

    public function __destruct()
    {
        if (isset($this->socket)) {
            fclose($this->socket);
        }
    }

    public function write(string $bytes): void
    {
        while ($bytes !== '') {
            $this->wait(forWriting: true);
            $this->wasSent = true;
            $length = @fwrite($this->socket, $bytes);
            if ($length === false || ($length === 0 && feof($this->socket))) {
                throw $this->failure('has closed the connection');
            }
            $bytes = substr($bytes, $length);
        }
    }

    /** Reads exactly `$length` bytes. Without a length, reads all bytes until the connection is closed. */
    public function read(?int $length = null): string
    {
        $bytes = '';
        while (strlen($bytes) < ($length ?? self::ANSWER_BYTES_MAX)) {
            $piece = $this->readSome(($length ?? self::ANSWER_BYTES_MAX) - strlen($bytes));
            if ($piece === '') {
                if ($length !== null) {
                    throw $this->failure('has closed the connection');
                }
                break;
            }
            $bytes .= $piece;
        }
        return $bytes;
    }

    /** Waits for bytes and returns the available ones. Returns an empty string at the end of the stream. */
    public function readSome(int $lengthMax = self::ANSWER_BYTES_MAX): string
    {
        do {
            // Read before waiting: TLS may hold decrypted bytes that stream_select() does not report.
            $piece = (string) fread($this->socket, $lengthMax);
            if ($piece !== '' || feof($this->socket)) {
                return $piece;
            }
            $this->wait(forWriting: false);
        } while (true);
    }

    public function finishWriting(): void
    {
        stream_socket_shutdown($this->socket, STREAM_SHUT_WR);
    }

    public function failure(string $what, bool $mayHelp = true): Failure
    {
        return new Failure($what, $mayHelp, $this->wasSent);
    }

    private function wait(bool $forWriting): void
    {
        $read = $forWriting ? [] : [$this->socket];
        $write = $forWriting ? [$this->socket] : [];
        $none = [];
        $left = $this->deadline->left();
        @stream_select($read, $write, $none, (int) $left, (int) (fmod($left, 1) * 1e6));
        if ($this->deadline->isOver()) {
            throw $this->failure("has not answered within {$this->deadline->text()} seconds");
        }
    }

    private static function why(?string $why): string
    {
        return $why !== null && $why !== '' ? $why : (error_get_last()['message'] ?? 'no connection');
    }
}
