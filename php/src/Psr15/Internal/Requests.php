<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Fermata\Exception\BadRequestException;
use Fermata\Internal\FrontController;
use Fermata\Psr15\Factories;
use Fermata\Request;
use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\ServerRequest;
use Psr\Http\Message\{ServerRequestInterface, StreamInterface, UriInterface};

/**
 * Creates PSR-7 requests from the server's requests.
 *
 * The server validated names, values and bytes when it parsed the request. A PSR-7 library validates each header again and copies
 * the request for each. That takes longer than all other work for a request, so the request is created in one step where possible.
 *
 * @internal
 */
final class Requests
{
    /**
     * Matches targets that every library keeps unchanged, which are a path and an optional query. Two leading slashes would start a
     * host.
     */
    private const UNCHANGED = '~^/(?!/)(?:[A-Za-z0-9_.\~:@&=+$,;/-]++|%[0-9A-Fa-f]{2})*+(?:\?(?!\?)(?:[A-Za-z0-9_.\~:@&=+$,;/?-]++|%[0-9A-Fa-f]{2})*+)?$~D';

    /** Header names whose spelling is not one capital letter per word. */
    private const NAMES = ['dnt' => 'DNT', 'etag' => 'ETag', 'te' => 'TE', 'www-authenticate' => 'WWW-Authenticate',
        'content-md5' => 'Content-MD5', 'sec-ch-ua' => 'Sec-CH-UA', 'sec-gpc' => 'Sec-GPC'];

    /** Cache of the last request: scheme and host, their URI, and the URI as a string. */
    private string $origin = '';
    private ?UriInterface $base = null;
    private string $baseText = '';

    /** Function that creates a nyholm/psr7 request in one step. Null if another library or version is installed. */
    private readonly ?\Closure $whole;

    /** @param bool $isLazy true if the handler accepts a request class that is not the library's */
    public function __construct(private readonly Factories $factories, private readonly FrontController $front, private readonly bool $isLazy)
    {
        $this->whole = $factories->requests::class === Psr17Factory::class ? self::ofNyholm() : null;
    }

    /**
     * @param array<mixed>|null $parsed form fields
     * @param array<mixed> $files
     * @throws BadRequestException if the target is not a valid URI, before the handler is called
     */
    public function of(Request $native, ?StreamInterface $body = null, ?array $parsed = null, array $files = []): ServerRequestInterface
    {
        // Read $_SERVER now, because on first use it may contain another request.
        $server = $this->front->serverNow();
        // Without a host (HTTP/1.0) the library derives the Host header from the URI.
        $host = $server !== null ? $server['HTTP_HOST'] ?? '' : $native->host();
        if ($this->isLazy && $host !== '') {
            // If the target may be invalid, parse it now to reject the request. Parse any other target on first use.
            $uri = self::isPlain($server['REQUEST_URI'] ?? $native->target()) && $this->base($native, $server) ? null : $this->libraryUri($native, $server);
            return new LazyRequest($this, $native, $server, $uri, $body, $parsed, $files);
        }
        return $this->make($native, $server ?? $this->serverOf($native), $this->libraryUri($native, $server), $body, $parsed, $files, [Request::class => $native]);
    }

    /**
     * Creates a request of the library.
     *
     * @param array<string, mixed> $server
     * @param array<mixed>|null $parsed
     * @param array<mixed> $files
     * @param array<string, mixed> $attributes
     */
    public function make(
        Request $native,
        array $server,
        UriInterface $uri,
        ?StreamInterface $body,
        ?array $parsed,
        array $files,
        array $attributes,
    ): ServerRequestInterface {
        $method = $native->method();
        $headers = self::headers($native);
        $version = substr($server['SERVER_PROTOCOL'], 5);
        if ($this->whole !== null && isset($headers['Host'])) {
            $request = ($this->whole)($method, $uri, $headers, $version, $server, $native->queries(), $native->cookies(), $attributes);
        } else {
            $request = $this->request($method, $uri, $headers, $version, $server);
            if ($query = $native->queries()) {
                $request = $request->withQueryParams($query);
            }
            if ($cookies = $native->cookies()) {
                $request = $request->withCookieParams($cookies);
            }
            foreach ($attributes as $name => $value) {
                $request = $request->withAttribute((string) $name, $value);
            }
        }
        $request = $body === null ? $request : $request->withBody($body);
        $request = $parsed === null ? $request : $request->withParsedBody($parsed);
        return $files === [] ? $request : $request->withUploadedFiles($files);
    }

    /**
     * Returns the headers with names spelled as in the RFCs. The server stores lower-case names.
     *
     * @return array<string, list<string>>
     */
    public static function headers(Request $native): array
    {
        $headers = [];
        foreach ($native->headers() as $name => $values) {
            $headers[self::NAMES[$name] ?? ucwords((string) $name, '-')] = $values;
        }
        return $headers;
    }

    public function emptyBody(): StreamInterface
    {
        return $this->factories->streams->createStream();
    }

    /** @return array<string, mixed> */
    public function serverOf(Request $native): array
    {
        return $this->front->serverOf($native);
    }

    /** @param array<string, mixed>|null $server */
    public function uri(Request $native, ?array $server): UriInterface
    {
        $target = $server['REQUEST_URI'] ?? $native->target();
        return preg_match(self::UNCHANGED, $target) === 1
            ? new LazyUri($this->base($native, $server), $this->baseText, $target)
            : $this->libraryUri($native, $server);
    }

    /** @param array<string, mixed>|null $server */
    private function libraryUri(Request $native, ?array $server): UriInterface
    {
        $target = $native->target();
        try {
            if (!self::isPlain($target)) {
                $origin = self::origin($native, $server);
                return $this->factories->uris->createUri($target === '*' ? $origin : (str_starts_with($target, '/') ? $origin : '') . $target);
            }
            $mark = strpos($target, '?');
            $uri = $this->base($native, $server)->withPath($mark === false ? $target : substr($target, 0, $mark));
            return $mark === false ? $uri : $uri->withQuery(substr($target, $mark + 1));
        } catch (\InvalidArgumentException $error) {
            throw self::badTarget($error);
        }
    }

    /** Returns true if the target is a path with an optional query, which every library accepts. */
    private static function isPlain(string $target): bool
    {
        return str_starts_with($target, '/') && !str_starts_with($target, '//') && !str_contains($target, '#');
    }

    /** @param array<string, mixed>|null $server */
    private static function origin(Request $native, ?array $server): string
    {
        // $_SERVER already contains scheme and host.
        return isset($server['HTTP_HOST'])
            ? "{$server['REQUEST_SCHEME']}://{$server['HTTP_HOST']}"
            : "{$native->scheme()}://" . ($native->host() ?: self::address($native));
    }

    /**
     * Returns the server's address, which is used as the host. HTTP/1.0 requests need no host (RFC 9112, section 3.2), but URIs of
     * libraries do.
     */
    private static function address(Request $native): string
    {
        ['SERVER_ADDR' => $address, 'SERVER_PORT' => $port] = $native->serverParams() + ['SERVER_ADDR' => '', 'SERVER_PORT' => ''];
        if ($address === '') {
            // The request arrived on a Unix socket.
            return 'localhost';
        }
        return (str_contains($address, ':') ? "[$address]" : $address) . ":$port";
    }

    /** @param array<string, mixed>|null $server */
    private function base(Request $native, ?array $server): UriInterface
    {
        $origin = self::origin($native, $server);
        if ($this->base === null || $origin !== $this->origin) {
            try {
                $this->base = $this->factories->uris->createUri($origin);
            } catch (\InvalidArgumentException $error) {
                throw self::badTarget($error);
            }
            $this->baseText = (string) $this->base;
            $this->origin = $origin;
        }
        return $this->base;
    }

    private static function badTarget(\InvalidArgumentException $error): BadRequestException
    {
        return new BadRequestException('the request target is no URI', 0, $error);
    }

    /**
     * @param array<string, list<string>> $headers
     * @param array<string, mixed> $server
     */
    private function request(string $method, UriInterface $uri, array $headers, string $version, array $server): ServerRequestInterface
    {
        // These constructors accept all headers at once. Other libraries copy the request for each header.
        $class = match ($this->factories->requests::class) {
            Psr17Factory::class => ServerRequest::class,
            \GuzzleHttp\Psr7\HttpFactory::class => \GuzzleHttp\Psr7\ServerRequest::class,
            default => null,
        };
        if ($class !== null) {
            return new $class($method, $uri, $headers, null, $version, $server);
        }
        $request = $this->factories->requests->createServerRequest($method, $uri, $server);
        if ($request->getProtocolVersion() !== $version) {
            $request = $request->withProtocolVersion($version);
        }
        foreach ($headers as $name => $values) {
            $request = $request->withHeader((string) $name, $values);
        }
        return $request;
    }

    /**
     * Returns a function that sets the private properties of a nyholm/psr7 request. Returns null if this version has other
     * properties.
     */
    private static function ofNyholm(): ?\Closure
    {
        foreach (['method', 'uri', 'headers', 'headerNames', 'protocol', 'serverParams', 'queryParams', 'cookieParams', 'attributes'] as $name) {
            if (!property_exists(ServerRequest::class, $name)) {
                return null;
            }
        }
        $uri = (new Psr17Factory())->createUri('http://localhost/');
        $empty = new ServerRequest('GET', $uri);
        $make = static function (
            string $method,
            UriInterface $uri,
            array $headers,
            string $version,
            array $server,
            array $query,
            array $cookies,
            array $attributes,
        ) use ($empty): ServerRequest {
            $names = [];
            foreach ($headers as $name => $_) {
                $names[strtolower((string) $name)] = (string) $name;
            }
            $request = clone $empty;
            $request->method = $method;
            $request->uri = $uri;
            $request->headers = $headers;
            $request->headerNames = $names;
            $request->protocol = $version;
            $request->serverParams = $server;
            $request->queryParams = $query;
            $request->cookieParams = $cookies;
            $request->attributes = $attributes;
            return $request;
        };
        $make = \Closure::bind($make, null, ServerRequest::class);
        $headers = ['Host' => ['localhost:80'], 'X-Name' => ['one', 'two'], '7' => ['']];
        $arguments = ['PUT', $uri, $headers, '1.0', ['SERVER_NAME' => 'x'], ['a' => ['b']], ['c' => 'd'], ['e' => $uri]];
        $expected = (new ServerRequest('PUT', $uri, $headers, null, '1.0', $arguments[4]))
            ->withQueryParams($arguments[5])
            ->withCookieParams($arguments[6])
            ->withAttribute('e', $uri);
        try {
            return $make(...$arguments) == $expected ? $make : null;
        } catch (\Error) {
            // A property is readonly or has another type.
            return null;
        }
    }
}
