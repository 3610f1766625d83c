<?php

declare(strict_types=1);

namespace Fermata\Grip;

/**
 * Where something is published, as libraries have it in `GRIP_URL`.
 *
 * - `http://HOST:PORT/PATH` or `https://…`: the control port of an edge. A name and password stand before the host; `key` and
 *   `iss` in the query make a token, `verify-key` and `verify-iss` tell how requests are signed. Keys are as for
 *   Signature::key().
 * - `http+unix:/PATH`, with the same query: the control port of an edge that listens at a Unix socket.
 * - `tcp://HOST:PORT`, `ipc:///PATH`: the ZeroMQ PULL socket of an edge.
 * - `unix:/PATH`: the control socket of a server with the extension.
 */
final readonly class Address
{
    /** The address without secrets. */
    public string $name;
    public bool $isTls;
    public ?string $host;
    public ?int $port;
    /** The Unix socket of a control port. */
    public ?string $socket;
    /** What stands before `/publish/`. */
    public string $path;
    /** The ZeroMQ socket as PHP names it. */
    public ?string $zmq;
    /** The control socket of a server. */
    public ?string $control;
    private ?string $user;
    private ?string $issuer;
    private ?string $key;
    private ?string $verifyIssuer;
    private ?string $verifyKey;

    /** @throws \ValueError which does not repeat the address, for it may hold a secret */
    public function __construct(#[\SensitiveParameter] string $text)
    {
        $scheme = strtolower((string) strstr($text, ':', true));
        $url = match ($scheme) {
            'http', 'https', 'tcp' => parse_url($text),
            'ipc', 'unix', 'http+unix' => [],
            default => throw new \ValueError(
                "an address begins with http://, https://, http+unix:, tcp://, ipc:// or unix:, not \"$scheme\"",
            ),
        };
        $rest = substr($text, strlen($scheme) + 1);
        $isSocket = $scheme === 'http+unix';
        if ($isSocket) {
            [$rest, $url['query']] = explode('?', $rest, 2) + ['', ''];
            $rest = '/' . ltrim($rest, '/');
        }
        if ($url === false || ($url !== [] && !$isSocket && !isset($url['host'])) || ($scheme === 'tcp' && !isset($url['port']))) {
            throw new \ValueError("an address with $scheme:// has a host" . ($scheme === 'tcp' ? ' and a port' : ''));
        }
        if (($url === [] || $isSocket) && trim($rest, '/') === '') {
            throw new \ValueError("an address with $scheme: has a path");
        }
        parse_str($url['query'] ?? '', $query);
        $text = fn (string $name) => is_string($query[$name] ?? null) ? $query[$name] : null;
        $this->isTls = $scheme === 'https';
        $this->socket = $isSocket ? $rest : null;
        $this->host = $isSocket ? 'localhost' : $url['host'] ?? null;
        $this->port = $this->host === null ? null : $url['port'] ?? ($this->isTls ? 443 : 80);
        $this->path = rtrim($url['path'] ?? '', '/');
        $this->zmq = match ($scheme) {
            'tcp' => "tcp://$this->host:$this->port",
            'ipc' => 'unix:///' . ltrim($rest, '/'),
            default => null,
        };
        $this->control = $scheme === 'unix' ? "unix:$rest" : null;
        $this->user = isset($url['user']) ? rawurldecode($url['user']) . ':' . rawurldecode($url['pass'] ?? '') : null;
        $this->issuer = $text('iss');
        $this->key = $text('key') === null ? null : Signature::key($text('key'));
        $this->verifyIssuer = $text('verify-iss');
        $this->verifyKey = $text('verify-key') === null ? null : Signature::key($text('verify-key'));
        $this->name = match (true) {
            $this->control !== null => $this->control,
            $scheme === 'ipc', $isSocket => "$scheme:$rest",
            default => "$scheme://$this->host" . (isset($url['port']) ? ":$this->port" : ''),
        };
    }

    public function authority(): string
    {
        return "$this->host:$this->port";
    }

    /** Whether nobody else can listen on the way there. */
    public function isLocal(): bool
    {
        $isIpv4 = filter_var($this->host, FILTER_VALIDATE_IP, FILTER_FLAG_IPV4) !== false;
        if ($this->socket !== null) {
            return true;
        }
        // A name may begin like an address.
        return in_array($this->host, ['localhost', '[::1]'], true) || ($isIpv4 && str_starts_with($this->host, '127.'));
    }

    /** The value of `Authorization` for the control port; null: it wants none. */
    public function authorization(): ?string
    {
        return match (true) {
            $this->user !== null => 'Basic ' . base64_encode($this->user),
            $this->key !== null => 'Bearer ' . Signature::sign($this->issuer, $this->key),
            default => null,
        };
    }

    /** Whether `Grip-Sig` was made by this edge; null: the address has no key to tell. */
    public function hasSigned(?string $token): ?bool
    {
        // A secret is the same at both ends; of a private key the edge has another one.
        $key = $this->verifyKey ?? ($this->key !== null && Signature::isSecret($this->key) ? $this->key : null);
        return $key === null ? null : Signature::isValid($token, $key, $this->verifyIssuer);
    }
}
