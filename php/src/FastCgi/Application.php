<?php

declare(strict_types=1);

namespace Fermata\FastCgi;

use Fermata\{Hook, Request, Response, Runtime};
use Fermata\Exception\MisuseError;
use Fermata\Internal\Headers;

use function Fermata\async;

/**
 * Has PHP-FPM, or another program that speaks FastCGI, answer requests: for the part of an application that stays as it is
 * while new routes are beside it. `Server::fastcgi()` does so without a Fiber and PHP of the server's; this is for paths with
 * middleware around them, such as one that signs in. It is a handler:
 *
 *     $server->static('/', '/var/www/html', fallback: new Application('/run/php/php8.2-fpm.sock', '/var/www/html'));
 *
 * The handler waits for PHP-FPM and the worker goes on meanwhile, which takes `Runtime::hook(Hook::Streams)`. Each request has a
 * connection of its own, as a kept one would occupy its child between two requests. Bodies are passed on in both directions as
 * they come; a client that leaves ends its request's connection. GRIP is the edge's: see docs/edge-php-fpm.md for holds by header.
 */
final class Application
{
    /** More than this of what the program writes to standard error is left out of the log, per request. */
    public const STDERR_BYTES_MAX = Internal\Exchange::STDERR_BYTES_MAX;

    /** The largest head of a response. */
    public const HEAD_BYTES_MAX = Internal\Exchange::HEAD_BYTES_MAX;

    private const PIECE_BYTES = 65_536;
    private const BODY_MEMORY_BYTES = 262_144;

    private readonly string $address;
    private readonly string $root;

    /**
     * @param string $socket where PHP-FPM listens: the path of its Unix socket, or HOST:PORT
     * @param string $root the folder of the scripts, as PHP-FPM's machine has it
     * @param string|null $script the one that answers everything, below the root; null: the path names the script
     * @param string $prefix in front of paths and in SCRIPT_NAME, and not of the root: '/old' for the folder's '/index.php' at '/old/index.php'
     * @param float $timeout seconds that PHP-FPM may be silent, or take none of a body, before the answer is 504
     * @throws \ValueError for a socket, script or prefix that cannot be one
     */
    public function __construct(
        string $socket,
        string $root,
        private readonly ?string $script = '/index.php',
        private readonly string $prefix = '',
        private readonly float $timeout = 60.0,
    ) {
        $isPath = str_starts_with($socket, '/') || str_starts_with($socket, 'unix:');
        if (!$isPath && !preg_match('~^(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}$~', $socket)) {
            throw new \ValueError("socket is \"$socket\": that is no address; give the path of a Unix socket, such as /run/php/php8.2-fpm.sock, or HOST:PORT");
        }
        if ($script !== null && !preg_match('~^(/(?!\.\.?(/|$))[^/\0]+)+$~', $script)) {
            throw new \ValueError("script is \"$script\": that is no path below the root; give one such as /index.php");
        }
        if ($prefix !== '' && !preg_match('~^(/[^/\0]+)+$~', $prefix)) {
            throw new \ValueError("prefix is \"$prefix\": give a path such as /old, without a slash at its end");
        }
        if (!($timeout > 0)) {
            throw new \ValueError("timeout is $timeout: give a number of seconds above 0");
        }
        $this->address = $isPath ? 'unix://' . preg_replace('~^unix:(//)?~', '', $socket) : "tcp://$socket";
        $this->root = rtrim($root, '/');
    }

    /** @throws MisuseError without Hook::Streams */
    public function __invoke(Request $request): Response
    {
        if (!in_array(Hook::Streams, Runtime::hooks(), true)) {
            throw new MisuseError('Fermata\FastCgi\Application would hold the worker while PHP-FPM works; call Fermata\Runtime::hook(Fermata\Hook::Streams) before run()');
        }
        $script = $this->scriptOf($request->path());
        if (is_int($script)) {
            return Response::text($script === 400 ? "The path cannot name a file.\n" : "There is no such page.\n", $script);
        }
        [$body, $bytes] = self::bodyOf($request);
        $stream = @stream_socket_client($this->address, $number, $reason, $this->timeout);
        if ($stream === false) {
            self::warn("FastCGI: no connection to $this->address: $reason; check that PHP-FPM runs and may be reached");
            return Response::text("The application does not answer.\n", 502);
        }
        try {
            return $this->ask($stream, Internal\Variables::of($request, $this->root, $this->prefix, $script, $bytes), $body);
        } catch (Failed $failed) {
            fclose($stream);
            self::warn("FastCGI: $this->address: {$failed->getMessage()}");
            return Response::text("The application has failed to answer.\n", $failed->getCode());
        } catch (\Throwable $error) {
            // The client has left, for example: PHP-FPM learns of it by the end of the connection.
            fclose($stream);
            throw $error;
        }
    }

    /** @return array{string, string}|int name and path info, or the status of a path that names no script */
    private function scriptOf(string $path): array|int
    {
        // Of the raw path: a %2F is no slash.
        $decoded = rawurldecode($path);
        if (preg_match('~%(2f|5c|00)~i', $path) || preg_match('~[\x00\\\\]|/\.\.?(/|$)~', $decoded) || !preg_match('//u', $decoded)) {
            return 400;
        }
        if ($this->prefix !== '' && $decoded !== $this->prefix && !str_starts_with($decoded, "$this->prefix/")) {
            return 404;
        }
        if ($this->script !== null) {
            return [$this->script, ''];
        }
        $below = substr($decoded, strlen($this->prefix));
        if (str_ends_with($below, '/')) {
            $below .= 'index.php';
        }
        return preg_match('~^(/.*?[^/]\.php)(/.*)?$~s', $below, $parts) ? [$parts[1], $parts[2] ?? ''] : 404;
    }

    /** @return array{resource|null, int|null} the body and how long it is */
    private static function bodyOf(Request $request): array
    {
        $length = $request->header('Content-Length');
        if ($length !== null) {
            return $length === '0' ? [null, 0] : [$request->bodyStream(), (int) $length];
        }
        // CGI has the length before the body. Over HTTP/2 nothing in the head tells whether there is one.
        $body = fopen('php://temp/maxmemory:' . self::BODY_MEMORY_BYTES, 'w+');
        $bytes = (int) stream_copy_to_stream($request->bodyStream(), $body);
        if ($bytes === 0) {
            return [null, null];
        }
        rewind($body);
        return [$body, $bytes];
    }

    /**
     * @param resource $stream
     * @param array<string, string> $variables
     * @param resource|null $body
     * @throws Failed
     */
    private function ask($stream, array $variables, $body): Response
    {
        stream_set_timeout($stream, (int) $this->timeout, (int) (fmod($this->timeout, 1) * 1_000_000));
        // Pieces of any size are to be read as they come, while others are written. The code that ends the wait closes the stream.
        stream_set_chunk_size($stream, self::PIECE_BYTES);
        Runtime::keepOnCancel($stream);
        self::write($stream, Internal\Exchange::begin($variables) . ($body === null ? Internal\Exchange::stdin('') : ''));
        // A program may answer before it has read the body, and stops reading where nobody takes its answer.
        $writing = $body === null ? null : async(static function () use ($stream, $body): void {
            while (!feof($body)) {
                $piece = (string) fread($body, self::PIECE_BYTES);
                if ($piece !== '') {
                    self::write($stream, Internal\Exchange::stdin($piece));
                }
            }
            self::write($stream, Internal\Exchange::stdin(''));
        });
        $exchange = new Internal\Exchange();
        try {
            while ($exchange->head === null || ($exchange->output === '' && !$exchange->isOver)) {
                $this->read($stream, $exchange, $writing);
            }
        } catch (\Throwable $error) {
            $writing?->cancel();
            throw $error;
        }
        [$status, $reason, $headers] = $exchange->head;
        $headers = Headers::of($headers);
        if ($exchange->isOver) {
            $writing?->cancel();
            fclose($stream);
            $this->log($exchange);
            return Headers::withReason(new Response($status, $exchange->output, $headers), $status, $reason);
        }
        $rest = function () use ($stream, $exchange, $writing): void {
            try {
                while (true) {
                    echo $exchange->take();
                    if ($exchange->isOver) {
                        return;
                    }
                    $this->read($stream, $exchange, $writing);
                }
            } finally {
                $writing?->cancel();
                fclose($stream);
                $this->log($exchange);
            }
        };
        return Headers::withReason(Response::output($rest, $status, $headers), $status, $reason);
    }

    /**
     * @param resource $stream
     * @throws Failed
     */
    private function read($stream, Internal\Exchange $exchange, ?\Fermata\Future $writing): void
    {
        $piece = fread($stream, self::PIECE_BYTES);
        if ($piece !== '' && $piece !== false) {
            $exchange->add($piece);
            return;
        }
        if (stream_get_meta_data($stream)['timed_out']) {
            throw new Failed("silent for $this->timeout seconds (timeout)", 504);
        }
        if ($writing !== null && $writing->isDone()) {
            // What went wrong there comes first.
            $writing->await();
        }
        throw new Failed('the connection has ended before the response', 502);
    }

    private function log(Internal\Exchange $exchange): void
    {
        if ($exchange->stderr !== '') {
            self::warn('FastCGI: ' . rtrim($exchange->stderr));
        }
    }

    /** For the log, also where an error handler makes an exception of every warning. */
    private static function warn(string $message): void
    {
        try {
            trigger_error($message, E_USER_WARNING);
        } catch (\Throwable) {
            error_log($message);
        }
    }

    /**
     * @param resource $stream
     * @throws Failed
     */
    private static function write($stream, string $bytes): void
    {
        while ($bytes !== '') {
            $written = @fwrite($stream, $bytes);
            if ($written === false || $written === 0) {
                $isLate = stream_get_meta_data($stream)['timed_out'];
                throw new Failed($isLate ? 'takes nothing of the request' : 'the connection has ended before the request', $isLate ? 504 : 502);
            }
            $bytes = substr($bytes, $written);
        }
    }
}
