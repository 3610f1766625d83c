<?php

declare(strict_types=1);

namespace Fermata\Psr15;

use Fermata\Internal\{FrontController, Headers};
use Fermata\{Hold, Request, Response};
use Nyholm\Psr7\Stream;
use Psr\Http\Message\{MessageInterface, RequestInterface, ResponseInterface, ServerRequestInterface, StreamInterface};
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Serves a handler of PSR-15.
 *
 * One request at a time runs in each worker, with its superglobals, unless `$server` is given and allows more; held clients
 * and files go on beside it, and events and bodies that a handler makes or prints are part of its turn. The native request is
 * the attribute `Fermata\Request`.
 */
final class Server
{
    /** A body of more bytes is sent in pieces. */
    private const WHOLE_BYTES_MAX = 262_144;
    private const PIECE_BYTES = 65_536;

    private readonly \Closure $handler;
    private readonly Factories $factories;
    private readonly Internal\Requests $requests;
    private readonly FrontController $front;

    /** What a stream of nyholm/psr7 has; null where it keeps that elsewhere than is known. */
    private readonly ?\Closure $contentOf;

    /**
     * @param RequestHandlerInterface|callable(ServerRequestInterface): ResponseInterface $handler
     * @param Factories|null $factories make the requests. Default: those of the PSR-7 library that is installed make the bodies, and
     *        the request when the handler changes more of it than its attributes; until then it is of a class of Fermata's
     * @param \Fermata\Server|null $server the server to add the handler to, for everything that its other routes do not take.
     *        Default: one by the settings, with one request at a time
     * @param string|null $public a folder whose files are sent without the handler
     * @param bool $globals whether the handler finds its request in $_SERVER, $_GET and so on, and may use PHP's sessions and
     *        header(). Needs Limits(handlers: 1)
     * @param int|null $bodyBytes how large a body may be; null = as the settings say
     * @param int|null $uploadBytes a larger file has the error UPLOAD_ERR_INI_SIZE, in place of a refusal of the request
     * @param bool $streamBody call the handler before the body has come. It reads it while it arrives, and forms are not taken apart
     * @param int $requestsMax after so many requests a worker is replaced; 0 = never
     * @throws \ValueError when there is no such folder
     */
    public function __construct(
        RequestHandlerInterface|callable $handler,
        ?Factories $factories = null,
        private readonly ?\Fermata\Server $server = null,
        ?string $public = null,
        private readonly bool $globals = true,
        ?int $bodyBytes = null,
        private readonly ?int $uploadBytes = null,
        private readonly bool $streamBody = false,
        int $requestsMax = 0,
    ) {
        $this->handler = $handler instanceof RequestHandlerInterface ? $handler->handle(...) : $handler(...);
        $takesAny = $factories === null && self::takesAny($this->handler);
        $this->factories = $factories ?? Factories::find();
        $this->front = new FrontController($this->handle(...), $public, $globals, $bodyBytes, $streamBody, $requestsMax, uploadBytes: $uploadBytes);
        $this->requests = new Internal\Requests($this->factories, $this->front, isLazy: $takesAny);
        $this->contentOf = self::contentOfNyholm();
    }

    /** Runs the server; see Fermata\Server::run(). */
    public function run(): void
    {
        $server = $this->server ?? FrontController::server();
        $this->front->register($server);
        $server->run();
    }

    private function handle(Request $request): Response|Hold
    {
        $response = ($this->handler)($this->request($request));
        $status = $response->getStatusCode();
        return Headers::withReason($this->answer($request, $response, $status), $status, $response->getReasonPhrase());
    }

    /** Whether a handler takes every request of PSR-7, and not only those of one library. */
    private static function takesAny(\Closure $handler): bool
    {
        $type = ((new \ReflectionFunction($handler))->getParameters()[0] ?? null)?->getType();
        return $type === null || in_array((string) $type, [ServerRequestInterface::class, RequestInterface::class, MessageInterface::class], true);
    }

    private function request(Request $native): ServerRequestInterface
    {
        if (!$native->hasBody()) {
            return $this->requests->of($native);
        }
        $body = $this->factories->streams->createStreamFromResource($native->bodyStream());
        if ($this->streamBody) {
            return $this->requests->of($native, $body);
        }
        $isForm = preg_match('~^(application/x-www-form-urlencoded|multipart/form-data)\s*(;|$)~i', $native->header('Content-Type', ''));
        return $this->requests->of($native, $body, $isForm ? $native->forms() : null, $this->files($native->files()));
    }

    /**
     * @param array<mixed> $files
     * @return array<mixed>
     */
    private function files(array $files): array
    {
        return array_map(fn(mixed $file): mixed => is_array($file) ? $this->files($file) : new Internal\UploadedFile(
            $file,
            $this->factories->streams,
            $this->uploadBytes !== null && $file->size > $this->uploadBytes ? UPLOAD_ERR_INI_SIZE : UPLOAD_ERR_OK,
        ), $files);
    }

    private function answer(Request $request, ResponseInterface $response, int $status): Response|Hold
    {
        $body = $response->getBody();
        if ($body instanceof Body) {
            return $this->native($body, $status, self::headers($response));
        }
        $content = $this->contentOf !== null && $body::class === Stream::class ? ($this->contentOf)($body) : null;
        $size = $content ?? $body->getSize();
        if (is_string($size) || ($size !== null && $size <= self::WHOLE_BYTES_MAX)) {
            return $this->whole($request, $status, $content ?? (string) $body, $response);
        }
        $headers = self::headers($response);
        if ($size === null) {
            // The program makes the pieces, so they are made in its turn.
            $printed = FrontController::printed();
            return Response::output(static function () use ($body, $printed): void {
                echo $printed;
                self::rewind($body);
                while (!$body->eof()) {
                    echo $body->read(self::PIECE_BYTES);
                }
            }, $status, Headers::typed($headers));
        }
        $path = $status === 200 && in_array($request->method(), ['GET', 'HEAD'], true) ? self::path($body, $size, $headers) : null;
        if ($path !== null) {
            // The file may go with its stream, so that stays until the request is over.
            $request->withAttribute(self::class, $body);
            return Headers::onto(Response::file($path), $headers);
        }
        return Response::stream(self::pieces($body), $status, Headers::typed($headers), $body->isSeekable() ? $size : null);
    }

    /**
     * Reads a stream of nyholm/psr7 whole, or tells its size where that is large; null where it is to be asked. Its own methods
     * are many, and its getSize() asks the file system about what is in memory, too: that took longer than making the body.
     */
    private static function contentOfNyholm(): ?\Closure
    {
        foreach (['stream', 'seekable', 'readable'] as $name) {
            if (!property_exists(Stream::class, $name)) {
                return null;
            }
        }
        $bytesMax = self::WHOLE_BYTES_MAX;
        return \Closure::bind(static function (Stream $body) use ($bytesMax): string|int|null {
            if (!$body->seekable || !$body->readable || fseek($body->stream, 0, SEEK_END) !== 0) {
                return null;
            }
            $bytes = ftell($body->stream);
            if ($bytes === false || $bytes > $bytesMax) {
                return $bytes === false ? null : $bytes;
            }
            $content = stream_get_contents($body->stream, offset: 0);
            return $content === false ? null : $content;
        }, null, Stream::class);
    }

    /** @return array<string, list<string>> */
    private static function headers(ResponseInterface $response): array
    {
        return Headers::withSent(Headers::of($response->getHeaders()));
    }

    private function whole(Request $request, int $status, string $text, ResponseInterface $response): Response
    {
        if ($text === '' && $request->method() === 'HEAD') {
            // For HEAD the program says what GET would have sent.
            $length = $response->getHeaderLine('Content-Length');
            if (ctype_digit($length)) {
                return Response::stream([], $status, self::headers($response), (int) $length);
            }
        }
        return Response::relayed($status, $this->globals ? $text : FrontController::printed() . $text, $response->getHeaders());
    }

    /** @param array<string, list<string>> $headers */
    private function native(Body $body, int $status, array $headers): Response|Hold
    {
        if ($body->hold === null) {
            return ($body->make)($status, $headers);
        }
        return Headers::onto($body->hold, $headers, ['content-type']);
    }

    /**
     * Of a plain file that is to be sent whole, and of which the program has not said more than the server would.
     *
     * @param array<string, list<string>> $headers
     */
    private static function path(StreamInterface $body, int $size, array $headers): ?string
    {
        $meta = $body->getMetadata();
        if (!is_array($meta) || ($meta['wrapper_type'] ?? null) !== 'plainfile' || !is_string($meta['uri'] ?? null)) {
            return null;
        }
        $own = array_intersect_key(array_change_key_case($headers), array_flip(['etag', 'last-modified', 'content-range', 'content-encoding']));
        return $own === [] && is_file($meta['uri']) && filesize($meta['uri']) === $size ? $meta['uri'] : null;
    }

    /** @return \Generator<int, string> */
    private static function pieces(StreamInterface $body): \Generator
    {
        try {
            self::rewind($body);
            while (!$body->eof()) {
                yield $body->read(self::PIECE_BYTES);
            }
        } finally {
            $body->close();
        }
    }

    private static function rewind(StreamInterface $body): void
    {
        if ($body->isSeekable()) {
            $body->rewind();
        }
    }
}
