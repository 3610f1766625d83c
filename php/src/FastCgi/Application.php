<?php

declare(strict_types=1);

namespace Fermata\FastCgi;

use Fermata\{Hook, Request, Response, Runtime};
use Fermata\Exception\MisuseError;
use Fermata\Internal\Headers;

use function Fermata\async;

/**
 * Handler that forwards requests to PHP-FPM or another FastCGI server. Use it to keep an existing application running
 * unchanged next to new routes. Prefer `Server::fastcgi()`, which runs neither a Fiber nor PHP code in the worker; use this
 * class for paths that need middleware, such as authentication:
 *
 *     $server->static('/', '/var/www/html', fallback: new Application('/run/php/php8.2-fpm.sock', '/var/www/html'));
 *
 * `Runtime::hook(Hook::Streams)` is required: the worker serves other requests while the handler waits for PHP-FPM. Each
 * request uses a separate connection, because an idle persistent connection would occupy a PHP-FPM child. Bodies are streamed
 * in both directions. If the client disconnects, the FastCGI connection is closed. To hold clients by GRIP response headers,
 * use an edge: see docs/edge-php-fpm.md.
 */
final class Application
{
    /** Maximum number of bytes of a request's standard error output that are logged. The rest is dropped. */
    public const STDERR_BYTES_MAX = Internal\Exchange::STDERR_BYTES_MAX;

    /** Maximum size of a response's header section, in bytes. */
    public const HEAD_BYTES_MAX = Internal\Exchange::HEAD_BYTES_MAX;

    private const PIECE_BYTES = 65_536;
    private const BODY_MEMORY_BYTES = 262_144;

    private readonly string $address;
    private readonly string $root;

    /**
     * @param string $socket address of PHP-FPM: the path of its Unix socket, or HOST:PORT
     * @param string $root the scripts' folder, as a path on PHP-FPM's machine
     * @param string|null $script the script below the root that handles every request; null: the request path names the script
     * @param string $prefix path prefix that is part of SCRIPT_NAME but not of the file's path: with '/old', the request path
     *        '/old/index.php' runs '/index.php' of the folder
     * @param float $timeout seconds without a byte read from or written to PHP-FPM after which the response is 504
     * @throws \ValueError if the socket, script, prefix or timeout is invalid
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
            // For example, the client disconnected. Closing the connection notifies PHP-FPM.
            fclose($stream);
            throw $error;
        }
    }

    /** @return array{string, string}|int script name and path info, or the response status if the path names no script */
    private function scriptOf(string $path): array|int
    {
        // Check the raw path too: an encoded slash, backslash or NUL must not become part of a file name.
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

    /** @return array{resource|null, int|null} the body and its length in bytes */
    private static function bodyOf(Request $request): array
    {
        $length = $request->header('Content-Length');
        if ($length !== null) {
            return $length === '0' ? [null, 0] : [$request->bodyStream(), (int) $length];
        }
        // CGI requires CONTENT_LENGTH before the body, so buffer a body of unknown length (HTTP/2 or chunked).
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
        // Read pieces as they arrive, while the request body is still being written. On cancellation the caller closes the stream.
        stream_set_chunk_size($stream, self::PIECE_BYTES);
        Runtime::keepOnCancel($stream);
        self::write($stream, Internal\Exchange::begin($variables) . ($body === null ? Internal\Exchange::stdin('') : ''));
        // Write and read concurrently. The application may respond before it has read the body, and it blocks while nobody reads
        // its output.
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
            // Throws the writer's error, which is the cause.
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

    /** Logs a warning, even if an error handler turns warnings into exceptions. */
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
