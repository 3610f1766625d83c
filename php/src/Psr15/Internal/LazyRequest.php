<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Fermata\Request;
use Psr\Http\Message\{ServerRequestInterface, StreamInterface, UriInterface};

/**
 * A request without a body that the library makes when it is first asked for more than the server itself tells.
 *
 * To make one takes longer than to parse, route and answer it: a handler that looks at method and path alone is spared that.
 * Every `with…()` gives a request of the library's, so this is never copied. The signatures are those of both psr/http-message 1
 * and 2.
 *
 * @internal
 */
final class LazyRequest implements ServerRequestInterface
{
    private ?ServerRequestInterface $made = null;

    /**
     * @param array<string, mixed>|null $server the superglobal; null where the handler has none, and it is made with the rest
     * @param UriInterface $base the URI of its scheme and host
     */
    public function __construct(
        private readonly Requests $requests,
        private readonly Request $native,
        private readonly ?array $server,
        private readonly UriInterface $base,
    ) {}

    private function made(): ServerRequestInterface
    {
        return $this->made ??= $this->requests->make($this->native, $this->server, $this->base);
    }

    public function getMethod(): string
    {
        return $this->native->method();
    }

    public function getQueryParams(): array
    {
        return $this->native->queries();
    }

    public function getCookieParams(): array
    {
        return $this->native->cookies();
    }

    public function getUploadedFiles(): array
    {
        return [];
    }

    public function getParsedBody(): null|array|object
    {
        return null;
    }

    public function getAttributes(): array
    {
        return [Request::class => $this->native];
    }

    public function getAttribute($name, $default = null): mixed
    {
        return $name === Request::class ? $this->native : $default;
    }

    public function getUri(): UriInterface
    {
        return $this->made()->getUri();
    }

    public function getRequestTarget(): string
    {
        return $this->made()->getRequestTarget();
    }

    public function getServerParams(): array
    {
        return $this->made()->getServerParams();
    }

    public function getBody(): StreamInterface
    {
        return $this->made()->getBody();
    }

    public function getProtocolVersion(): string
    {
        return $this->made()->getProtocolVersion();
    }

    public function getHeaders(): array
    {
        return $this->made()->getHeaders();
    }

    public function hasHeader($name): bool
    {
        return $this->made()->hasHeader($name);
    }

    public function getHeader($name): array
    {
        return $this->made()->getHeader($name);
    }

    public function getHeaderLine($name): string
    {
        return $this->made()->getHeaderLine($name);
    }

    public function withProtocolVersion($version): ServerRequestInterface
    {
        return $this->made()->withProtocolVersion($version);
    }

    public function withHeader($name, $value): ServerRequestInterface
    {
        return $this->made()->withHeader($name, $value);
    }

    public function withAddedHeader($name, $value): ServerRequestInterface
    {
        return $this->made()->withAddedHeader($name, $value);
    }

    public function withoutHeader($name): ServerRequestInterface
    {
        return $this->made()->withoutHeader($name);
    }

    public function withRequestTarget($requestTarget): ServerRequestInterface
    {
        return $this->made()->withRequestTarget($requestTarget);
    }

    public function withMethod($method): ServerRequestInterface
    {
        return $this->made()->withMethod($method);
    }

    public function withBody(StreamInterface $body): ServerRequestInterface
    {
        return $this->made()->withBody($body);
    }

    public function withUri(UriInterface $uri, $preserveHost = false): ServerRequestInterface
    {
        return $this->made()->withUri($uri, $preserveHost);
    }

    public function withCookieParams(array $cookies): ServerRequestInterface
    {
        return $this->made()->withCookieParams($cookies);
    }

    public function withQueryParams(array $query): ServerRequestInterface
    {
        return $this->made()->withQueryParams($query);
    }

    public function withUploadedFiles(array $uploadedFiles): ServerRequestInterface
    {
        return $this->made()->withUploadedFiles($uploadedFiles);
    }

    public function withParsedBody($data): ServerRequestInterface
    {
        return $this->made()->withParsedBody($data);
    }

    public function withAttribute($name, $value): ServerRequestInterface
    {
        return $this->made()->withAttribute($name, $value);
    }

    public function withoutAttribute($name): ServerRequestInterface
    {
        return $this->made()->withoutAttribute($name);
    }
}
