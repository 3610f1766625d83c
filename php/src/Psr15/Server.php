<?php

declare(strict_types=1);

namespace Fermata\Psr15;

use Fermata\Internal\{Extension, FrontController, Headers};
use Fermata\{Hold, Request, Response, Runtime};
use Nyholm\Psr7\Stream;
use Psr\Http\Message\{MessageInterface, RequestInterface, ResponseInterface, ServerRequestInterface, StreamInterface};
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Serves a PSR-15 handler.
 *
 * By default each worker handles one request at a time and fills the superglobals; a `$server` with a higher handler limit
 * handles more. Held clients and files do not count. A handler that is still emitting events or output does. The request
 * attribute `Fermata\Request` contains the server's request.
 */
final class Server
{
    /** Maximum size of a body that is read into memory; larger bodies are sent in pieces. */
    private const WHOLE_BYTES_MAX = 262_144;
    private const PIECE_BYTES = 65_536;

    private readonly \Closure $handler;
    private readonly Factories $factories;
    private readonly Internal\Requests $requests;
    private readonly FrontController $front;

    /** Function that reads the content of a nyholm/psr7 stream. Null if this version has other properties. */
    private readonly ?\Closure $contentOf;

    /**
     * @param RequestHandlerInterface|callable(ServerRequestInterface): ResponseInterface $handler
     * @param Factories|null $factories create the requests. Default: the request is an object of Fermata and its body one of the
     *        installed PSR-7 library. If the handler changes more than attributes, the library creates the request too
     * @param \Fermata\Server|null $server the server whose requests without another route the handler receives. Default: a server
     *        configured by the settings, with one request at a time per worker
     * @param string|null $public a folder whose files are sent without calling the handler
     * @param bool $globals true to fill $_SERVER, $_GET and the other superglobals and to support PHP's sessions and header().
     *        Requires Limits(handlers: 1)
     * @param int|null $bodyBytes maximum size of a request body; null = from the settings
     * @param int|null $uploadBytes maximum size of an uploaded file; a larger file gets the error UPLOAD_ERR_INI_SIZE
     * @param bool $streamBody true to call the handler before the body has arrived. The handler reads the body as it arrives; forms
     *        are not parsed
     * @param int $requestsMax number of requests after which a worker is replaced; 0 = never
     * @throws \ValueError if the public folder does not exist
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
        Extension::require();
        Runtime::setSapiName('frankenphp');
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

    /** Returns true if the handler accepts every PSR-7 request, not only those of one library. */
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
            // Reading the body may run code of the application, so read it on the fiber of the handler.
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
            // Keep the stream until the end of the request, because closing it may delete the file.
            $request->withAttribute(self::class, $body);
            return Headers::onto(Response::file($path), $headers);
        }
        return Response::stream(self::pieces($body), $status, Headers::typed($headers), $body->isSeekable() ? $size : null);
    }

    /**
     * Returns a function that reads a small nyholm/psr7 stream completely and returns the size of a large one. The function returns
     * null if the stream's own methods are needed. Those are slower: getSize() calls fstat() even for a stream in memory.
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
            // For HEAD the application may set the Content-Length of the GET response.
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
     * Returns the path of a plain file that Response::file() can send. Returns null for a part of a file, or if the application has
     * set headers that Response::file() would set.
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
