<?php

declare(strict_types=1);

namespace Fermata\Psr15\Internal;

use Psr\Http\Message\UriInterface;

/**
 * URI of a request whose target needs no normalization. Path, query and text are read from it directly; the library's URI
 * object is created for everything else.
 *
 * Every `with…()` method returns a URI of the library, so this object is never copied. The signatures are compatible with
 * psr/http-message 1 and 2.
 *
 * @internal
 */
final class LazyUri implements UriInterface
{
    private readonly string $path;
    private readonly string $query;
    private ?UriInterface $made = null;

    /**
     * @param UriInterface $base URI with scheme and host
     * @param string $text `$base` as a string
     * @param string $target path and optional query, without characters that the library would escape
     */
    public function __construct(private readonly UriInterface $base, private readonly string $text, string $target)
    {
        $mark = strpos($target, '?');
        $this->path = $mark === false ? $target : substr($target, 0, $mark);
        $this->query = $mark === false ? '' : substr($target, $mark + 1);
    }

    private function made(): UriInterface
    {
        return $this->made ??= $this->base->withPath($this->path)->withQuery($this->query);
    }

    public function getPath(): string
    {
        return $this->path;
    }

    public function getQuery(): string
    {
        return $this->query;
    }

    public function __toString(): string
    {
        return $this->text . $this->path . ($this->query === '' ? '' : "?$this->query");
    }

    public function getScheme(): string
    {
        return $this->base->getScheme();
    }

    public function getAuthority(): string
    {
        return $this->base->getAuthority();
    }

    public function getUserInfo(): string
    {
        return $this->base->getUserInfo();
    }

    public function getHost(): string
    {
        return $this->base->getHost();
    }

    public function getPort(): ?int
    {
        return $this->base->getPort();
    }

    public function getFragment(): string
    {
        return '';
    }

    public function withScheme($scheme): UriInterface
    {
        return $this->made()->withScheme($scheme);
    }

    public function withUserInfo($user, $password = null): UriInterface
    {
        return $this->made()->withUserInfo($user, $password);
    }

    public function withHost($host): UriInterface
    {
        return $this->made()->withHost($host);
    }

    public function withPort($port): UriInterface
    {
        return $this->made()->withPort($port);
    }

    public function withPath($path): UriInterface
    {
        return $this->made()->withPath($path);
    }

    public function withQuery($query): UriInterface
    {
        return $this->made()->withQuery($query);
    }

    public function withFragment($fragment): UriInterface
    {
        return $this->made()->withFragment($fragment);
    }
}
