<?php

declare(strict_types=1);

namespace Fermata\Grip;

/** * Parsed address of a publish target, in the format of `GRIP_URL`. * * - `http://HOST:PORT/PATH` or `https://…`: the control
port of an edge. User and password before the host are sent as Basic * authentication. The query parameters `key` and `iss` sign a
Bearer token; `verify-key` and `verify-iss` verify the edge's * `Grip-Sig`. Signature::key() describes the format of keys. * -
`http+unix:/PATH`, with the same query: the control port of an edge that listens on a Unix socket. * - `tcp://HOST:PORT`,
`ipc:///PATH`: the ZeroMQ PULL socket of an edge. * - `unix:/PATH`: the control socket of a Fermata server. */ final readonly class
Address { /** Address without secrets, for messages. */ public string $name; public bool $isTls; public ?string $host; public ?int
$port; /** Path of the control port's Unix socket. Null if the control port uses TCP, or if there is no control port. */ public
?string $socket; /** URL path before `/publish/`. */ public string $path; /** ZeroMQ socket as an address for
stream_socket_client(); null: no ZeroMQ socket. */ public ?string $zmq; /** Control socket of a Fermata server; null: the address
names an edge. */ public ?string $control; private ?string $user; private ?string $issuer; private ?string $key; private ?string
$verifyIssuer; private ?string $verifyKey;

    /** @throws \ValueError if the address is malformed; the message omits the address, which may contain a secret */
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

    /** Returns true if the connection stays on this machine, where no other host can read it. */
    public function isLocal(): bool
    {
        $isIpv4 = filter_var($this->host, FILTER_VALIDATE_IP, FILTER_FLAG_IPV4) !== false;
        if ($this->socket !== null) {
            return true;
        }
        // Require an IP address: a host name may start with "127." too.
        return in_array($this->host, ['localhost', '[::1]'], true) || ($isIpv4 && str_starts_with($this->host, '127.'));
    }

    /** Returns the `Authorization` header for the control port; null: the address has no credentials. */
    public function authorization(): ?string
    {
        return match (true) {
            $this->user !== null => 'Basic ' . base64_encode($this->user),
            $this->key !== null => 'Bearer ' . Signature::sign($this->issuer, $this->key),
            default => null,
        };
    }

    /** Returns true if this edge signed the `Grip-Sig` token. Returns null if the address has no key to verify it. */
    public function hasSigned(?string $token): ?bool
    {
        // A secret is the same on both sides. A private key only signs requests to the edge, and the edge signs with a different
        // key.
        $key = $this->verifyKey ?? ($this->key !== null && Signature::isSecret($this->key) ? $this->key : null);
        return $key === null ? null : Signature::isValid($token, $key, $this->verifyIssuer);
    }
}
