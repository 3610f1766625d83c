<?php

declare(strict_types=1);

namespace Fermata\Psr15;

use Fermata\Internal\Headers;
use Fermata\{Hold, Response};
use Psr\Http\Message\StreamInterface;

/**
 * PSR-7 body that the server generates: a held client, server-sent events, a file, or printed output.
 *
 * `$response->withBody(Body::hold(Hold::sse('news')))` passes through middleware like any response. The response's headers are
 * sent; a missing Content-Type is set for the body. Holds and files determine the status themselves.
 * PHP code reads an empty body: only the server can send the content.
 */
final class Body implements StreamInterface
{
    private function __construct(
        /** @internal */
        public readonly ?Hold $hold = null,
        /** @internal @var (\Closure(int, array<string, list<string>>): Response)|null */
        public readonly ?\Closure $make = null,
    ) {}

    /** Holds the client and sends it published events. */
    public static function hold(Hold $hold): self
    {
        return new self(hold: $hold);
    }

    /**
     * Sends events that the callable emits while it runs; see Response::events().
     *
     * @param callable(\Fermata\EventSink): void $events
     */
    public static function events(callable $events): self
    {
        return new self(make: static fn(int $status, array $headers): Response => Response::events($events, $status, $headers));
    }

    /**
     * Sends the callable's output while it prints; see Response::output().
     *
     * @param callable(): void $output
     */
    public static function output(callable $output): self
    {
        return new self(make: static fn(int $status, array $headers): Response => Response::output($output, $status, $headers));
    }

    /** Sends a file; see Response::file(). */
    public static function file(string $path, ?string $root = null, ?string $download = null): self
    {
        return new self(make: static function (int $status, array $headers) use ($path, $root, $download): Response {
            return Headers::onto(Response::file($path, $root, $download), $headers);
        });
    }

    public function __toString(): string
    {
        return '';
    }

    public function close(): void {}

    /** @return null */
    public function detach()
    {
        return null;
    }

    public function getSize(): ?int
    {
        return null;
    }

    public function tell(): int
    {
        return 0;
    }

    public function eof(): bool
    {
        return true;
    }

    public function isSeekable(): bool
    {
        return false;
    }

    public function seek($offset, $whence = SEEK_SET): void
    {
        throw new \RuntimeException('the server makes this body, and it cannot be sought');
    }

    public function rewind(): void {}

    public function isWritable(): bool
    {
        return false;
    }

    public function write($string): int
    {
        throw new \RuntimeException('the server makes this body, and it cannot be written to; set another by withBody()');
    }

    public function isReadable(): bool
    {
        return true;
    }

    public function read($length): string
    {
        return '';
    }

    public function getContents(): string
    {
        return '';
    }

    public function getMetadata($key = null)
    {
        return $key === null ? [] : null;
    }
}
