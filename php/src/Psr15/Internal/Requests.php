<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Fermata\Exception\BadRequestException;
use Fermata\Internal\FrontController;
use Fermata\Psr15\Factories;
use Fermata\Request;
use Nyholm\Psr7\Factory\Psr17Factory;
use Nyholm\Psr7\ServerRequest;
use Psr\Http\Message\{ServerRequestInterface, UriInterface};

/**
 * Makes requests of PSR-7 from those of the server, without bodies.
 *
 * The server has checked names, values and bytes of a request when it parsed it. A library that is given them one by one
 * checks each again and copies the request for each, which takes longer than everything else that is done for a request.
 *
 * @internal
 */
final class Requests
{
    /** Scheme and host of the last request, and their URI. */
    private string $origin = '';
    private ?UriInterface $base = null;

    /** Makes a request in one step, where the library is known. */
    private readonly ?\Closure $whole;

    /** @param bool $isLazy whether the handler takes a request that is no object of the library */
    public function __construct(private readonly Factories $factories, private readonly FrontController $front, private readonly bool $isLazy)
    {
        $this->whole = $factories->requests::class === Psr17Factory::class ? self::ofNyholm() : null;
    }

    /** A request without a body, made when the handler first asks it for something that the library has to tell. */
    public function lazy(Request $native): ServerRequestInterface
    {
        // A target that is no URI is refused before the handler is called.
        if (!$this->isLazy || !self::isPlain($native->target())) {
            return $this->make($native);
        }
        // The superglobal now, and not that of another request that comes before this is looked at.
        return new LazyRequest($this, $native, $this->front->serverNow(), $this->base($native));
    }

    /**
     * @param array<string, mixed>|null $server the superglobal; null where the handler has none
     * @param UriInterface|null $base of its scheme and host, where the target is known to be plain
     */
    public function make(Request $native, ?array $server = null, ?UriInterface $base = null): ServerRequestInterface
    {
        $server ??= $this->front->serverOf($native);
        $uri = $this->uri($native, $base);
        $method = $native->method();
        $headers = $native->headers();
        $version = substr($server['SERVER_PROTOCOL'], 5);
        // Without this header the library makes it from the URI.
        if ($this->whole !== null && isset($headers['host'])) {
            return ($this->whole)($method, $uri, $headers, $version, $server, $native->queries(), $native->cookies(), [Request::class => $native]);
        }
        $request = $this->request($method, $uri, $headers, $version, $server);
        if ($query = $native->queries()) {
            $request = $request->withQueryParams($query);
        }
        if ($cookies = $native->cookies()) {
            $request = $request->withCookieParams($cookies);
        }
        return $request->withAttribute(Request::class, $native);
    }

    private function uri(Request $native, ?UriInterface $base): UriInterface
    {
        $target = $native->target();
        try {
            if ($base === null && !self::isPlain($target)) {
                $origin = self::origin($native);
                return $this->factories->uris->createUri($target === '*' ? $origin : (str_starts_with($target, '/') ? $origin : '') . $target);
            }
            $mark = strpos($target, '?');
            $uri = ($base ?? $this->base($native))->withPath($mark === false ? $target : substr($target, 0, $mark));
            return $mark === false ? $uri : $uri->withQuery(substr($target, $mark + 1));
        } catch (\InvalidArgumentException $error) {
            throw self::badTarget($error);
        }
    }

    /** Whether a target is a path and perhaps a query, which every library takes. */
    private static function isPlain(string $target): bool
    {
        return str_starts_with($target, '/') && !str_starts_with($target, '//') && !str_contains($target, '#');
    }

    private static function origin(Request $native): string
    {
        return "{$native->scheme()}://" . ($native->host() ?: self::address($native));
    }

    /** In place of a host: HTTP/1.0 needs to name none (RFC 9112, 3.2), and libraries refuse a URI without one. */
    private static function address(Request $native): string
    {
        ['SERVER_ADDR' => $address, 'SERVER_PORT' => $port] = $native->serverParams() + ['SERVER_ADDR' => '', 'SERVER_PORT' => ''];
        if ($address === '') {
            // It came over a Unix socket.
            return 'localhost';
        }
        return (str_contains($address, ':') ? "[$address]" : $address) . ":$port";
    }

    private function base(Request $native): UriInterface
    {
        $origin = self::origin($native);
        if ($this->base === null || $origin !== $this->origin) {
            try {
                $this->base = $this->factories->uris->createUri($origin);
            } catch (\InvalidArgumentException $error) {
                throw self::badTarget($error);
            }
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
        // A request of these is made in one piece; elsewhere each header copies it.
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

    /** Fills in a request of nyholm/psr7; null where a version of it keeps something elsewhere than is known. */
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
                $names[$name] = (string) $name;
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
        $headers = ['host' => ['localhost:80'], 'x-name' => ['one', 'two'], '7' => ['']];
        $arguments = ['PUT', $uri, $headers, '1.0', ['SERVER_NAME' => 'x'], ['a' => ['b']], ['c' => 'd'], ['e' => $uri]];
        $expected = (new ServerRequest('PUT', $uri, $headers, null, '1.0', $arguments[4]))
            ->withQueryParams($arguments[5])
            ->withCookieParams($arguments[6])
            ->withAttribute('e', $uri);
        try {
            return $make(...$arguments) == $expected ? $make : null;
        } catch (\Error) {
            // Read only, or of other types.
            return null;
        }
    }
}
