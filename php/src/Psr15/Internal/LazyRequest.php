<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Fermata\Request;
use Psr\Http\Message\{ServerRequestInterface, StreamInterface, UploadedFileInterface, UriInterface};

/**
 * PSR-7 request that reads from the server's request and stores attributes. It creates the library's request object only if a
 * handler changes anything except attributes.
 *
 * Creating the library's object takes longer than parsing, routing and responding to the request, and each attribute that a
 * router adds would copy it.
 * The signatures are compatible with psr/http-message 1 and 2.
 *
 * @internal
 */
final class LazyRequest implements ServerRequestInterface
{
    /** @var array<string, mixed> */
    private array $attributes;

    /**
     * @param array<string, mixed>|null $server $_SERVER; null if the handler has no superglobals: created on first use
     * @param UriInterface|null $uri null = created on first use
     * @param StreamInterface|null $body null = empty body
     * @param array<mixed>|null $parsed form fields
     * @param array<mixed> $files
     */
    public function __construct(
        private readonly Requests $requests,
        private readonly Request $native,
        private ?array $server,
        private ?UriInterface $uri,
        private ?StreamInterface $body,
        private readonly ?array $parsed,
        private readonly array $files,
    ) {
        $this->attributes = [Request::class => $native];
    }

    private function made(): ServerRequestInterface
    {
        return $this->requests->make($this->native, $this->getServerParams(), $this->getUri(), $this->getBody(), $this->parsed, $this->files, $this->attributes);
    }

    public function getMethod(): string
    {
        return $this->native->method();
    }

    public function getUri(): UriInterface
    {
        return $this->uri ??= $this->requests->uri($this->native, $this->server);
    }

    public function getRequestTarget(): string
    {
        $query = $this->getUri()->getQuery();
        return ($this->getUri()->getPath() ?: '/') . ($query === '' ? '' : "?$query");
    }

    public function getProtocolVersion(): string
    {
        return substr($this->getServerParams()['SERVER_PROTOCOL'], 5);
    }

    public function getHeaders(): array
    {
        return Requests::headers($this->native);
    }

    public function hasHeader($name): bool
    {
        return $this->native->header((string) $name) !== null;
    }

    public function getHeader($name): array
    {
        return $this->native->headers()[strtolower((string) $name)] ?? [];
    }

    public function getHeaderLine($name): string
    {
        return implode(', ', $this->getHeader($name));
    }

    public function getBody(): StreamInterface
    {
        return $this->body ??= $this->requests->emptyBody();
    }

    public function getServerParams(): array
    {
        return $this->server ??= $this->requests->serverOf($this->native);
    }

    public function getQueryParams(): array
    {
        return $this->native->queries();
    }

    public function getCookieParams(): array
    {
        return $this->native->cookies();
    }

    /** @return array<UploadedFileInterface|array<mixed>> */
    public function getUploadedFiles(): array
    {
        return $this->files;
    }

    public function getParsedBody(): null|array|object
    {
        return $this->parsed;
    }

    public function getAttributes(): array
    {
        return $this->attributes;
    }

    public function getAttribute($name, $default = null): mixed
    {
        return array_key_exists($name, $this->attributes) ? $this->attributes[$name] : $default;
    }

    public function withAttribute($name, $value): ServerRequestInterface
    {
        $changed = clone $this;
        $changed->attributes[$name] = $value;
        return $changed;
    }

    public function withoutAttribute($name): ServerRequestInterface
    {
        $changed = clone $this;
        unset($changed->attributes[$name]);
        return $changed;
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
}
