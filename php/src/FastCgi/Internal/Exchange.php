<?php

declare(strict_types=1);

namespace Fermata\FastCgi\Internal;

use Fermata\FastCgi\Failed;

/**
 * One FastCGI request and its response: encodes the records to send and parses the received bytes.
 *
 * @internal
 */
final class Exchange
{
    public const HEAD_BYTES_MAX = 65_536;
    public const STDERR_BYTES_MAX = 65_536;

    /** Maximum content of a record in bytes. It is a multiple of eight, so no record needs padding. */
    private const CONTENT_BYTES_MAX = 65_528;
    private const BEGIN = 1;
    private const END = 3;
    private const PARAMS = 4;
    private const STDIN = 5;
    private const STDOUT = 6;
    private const STDERR = 7;

    /** @var array{int, string, list<array{string, string}>}|null status, reason and headers */
    public ?array $head = null;

    /** Received body bytes that take() has not returned yet. */
    public string $output = '';
    /** Output to standard error, at most STDERR_BYTES_MAX bytes. */
    public string $stderr = '';
    /** True after the record FCGI_END_REQUEST. */
    public bool $isOver = false;

    /** Received bytes of an incomplete record. */
    private string $pending = '';

    /** @param array<string, string> $variables */
    public static function begin(array $variables): string
    {
        $content = '';
        foreach ($variables as $name => $value) {
            $content .= self::length(strlen($name)) . self::length(strlen($value)) . $name . $value;
        }
        // Role FCGI_RESPONDER, without FCGI_KEEP_CONN: the application closes the connection after the response.
        return self::record(self::BEGIN, "\0\1\0\0\0\0\0\0") . self::stream(self::PARAMS, $content) . self::record(self::PARAMS, '');
    }

    /** Encodes a piece of the request body; an empty piece ends the body. */
    public static function stdin(string $piece): string
    {
        return $piece === '' ? self::record(self::STDIN, '') : self::stream(self::STDIN, $piece);
    }

    /** @throws Failed if the bytes are not valid FastCGI */
    public function add(string $bytes): void
    {
        $bytes = $this->pending . $bytes;
        $at = 0;
        while (strlen($bytes) - $at >= 8) {
            ['version' => $version, 'kind' => $kind, 'id' => $id, 'content' => $content, 'padding' => $padding]
                = unpack('Cversion/Ckind/nid/ncontent/Cpadding', $bytes, $at);
            if ($version !== 1 || $id !== 1 || $this->isOver || !in_array($kind, [self::STDOUT, self::STDERR, self::END], true)) {
                throw new Failed('it does not speak FastCGI', 502);
            }
            if (strlen($bytes) - $at < 8 + $content + $padding) {
                break;
            }
            $this->handle($kind, substr($bytes, $at + 8, $content));
            $at += 8 + $content + $padding;
        }
        $this->pending = substr($bytes, $at);
    }

    /** Returns the body bytes received since the last call. */
    public function take(): string
    {
        $output = $this->output;
        $this->output = '';
        return $output;
    }

    private function handle(int $kind, string $content): void
    {
        if ($kind === self::STDERR) {
            $this->stderr .= substr($content, 0, max(0, self::STDERR_BYTES_MAX - strlen($this->stderr)));
            return;
        }
        if ($kind === self::END) {
            $refusal = ord($content[4] ?? "\1");
            if ($refusal !== 0) {
                throw new Failed("it refuses the request with protocol status $refusal", $refusal === 2 ? 503 : 502);
            }
            if ($this->head === null) {
                throw new Failed('its output has ended within the head of the response' . ($this->stderr === '' ? '' : ": $this->stderr"), 502);
            }
            $this->isOver = true;
            return;
        }
        $this->output .= $content;
        if ($this->head === null) {
            $this->readHead();
        }
    }

    private function readHead(): void
    {
        if (!preg_match('~\r?\n\r?\n~', $this->output, $end, PREG_OFFSET_CAPTURE)) {
            if (strlen($this->output) > self::HEAD_BYTES_MAX) {
                throw new Failed('its response has a head of more than ' . self::HEAD_BYTES_MAX . ' bytes', 502);
            }
            return;
        }
        [$line, $at] = $end[0];
        $status = 0;
        $reason = '';
        $headers = [];
        foreach (preg_split('~\r?\n~', substr($this->output, 0, $at)) as $text) {
            if (!preg_match('~^([!#$%&\'*+.^_`|\~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*$~D', $text, $parts)) {
                throw new Failed('its response has a line in its head that is no header', 502);
            }
            if (strcasecmp($parts[1], 'Status') !== 0) {
                $headers[$parts[1]][] = $parts[2];
            } elseif (preg_match('~^([2-5]\d\d)(?: (.*))?$~D', $parts[2], $parts)) {
                $status = (int) $parts[1];
                $reason = $parts[2] ?? '';
            } else {
                throw new Failed('its response has a Status that is not 200 to 599', 502);
            }
        }
        $hasLocation = array_key_exists('location', array_change_key_case($headers));
        $this->head = [$status ?: ($hasLocation ? 302 : 200), $reason, $headers];
        $this->output = substr($this->output, $at + strlen($line));
    }

    private static function stream(int $kind, string $content): string
    {
        $records = '';
        for ($at = 0; $at < strlen($content); $at += self::CONTENT_BYTES_MAX) {
            $records .= self::record($kind, substr($content, $at, self::CONTENT_BYTES_MAX));
        }
        return $records;
    }

    private static function record(int $kind, string $content): string
    {
        $padding = -strlen($content) & 7;
        return pack('CCnnCx', 1, $kind, 1, strlen($content), $padding) . $content . str_repeat("\0", $padding);
    }

    /** Encodes a length: one byte below 128, otherwise four bytes with the highest bit set. */
    private static function length(int $length): string
    {
        return $length < 128 ? chr($length) : pack('N', $length | 0x8000_0000);
    }
}
