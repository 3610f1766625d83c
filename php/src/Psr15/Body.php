<?php

declare(strict_types=1);

namespace Fermata\Psr15;

use Fermata\Internal\Headers;
use Fermata\{Hold, Response};
use Psr\Http\Message\StreamInterface;

/**
 * A body that the server makes, for a response of PSR-7: a held client, server-sent events, a file, what is printed.
 *
 * `$response->withBody(Body::hold(Hold::sse('news')))` passes through middleware like any response; its headers go with the
 * answer, and where it has no Content-Type, that of the body. A hold and a file have statuses of their own.
 * To PHP it is empty: only the server can send it.
 */
final class Body implements StreamInterface
{
    private function __construct(
        /** @internal */
        public readonly ?Hold $hold = null,
        /** @internal @var (\Closure(int, array<string, list<string>>): Response)|null */
        public readonly ?\Closure $make = null,
    ) {}

    /** The client is held, and gets what is published. */
    public static function hold(Hold $hold): self
    {
        return new self(hold: $hold);
    }

    /**
     * Events that the callable makes while it runs; see Response::events().
     *
     * @param callable(\Fermata\EventSink): void $events
     */
    public static function events(callable $events): self
    {
        return new self(make: static fn(int $status, array $headers): Response => Response::events($events, $status, $headers));
    }

    /**
     * What the callable prints; see Response::output().
     *
     * @param callable(): void $output
     */
    public static function output(callable $output): self
    {
        return new self(make: static fn(int $status, array $headers): Response => Response::output($output, $status, $headers));
    }

    /** A file, sent by the kernel; see Response::file(). */
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
