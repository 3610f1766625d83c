<?php

declare(strict_types=1);

namespace Chat;

/** What the environment decides. The server's own settings (PORT, FERMATA_*) are read by the server. */
final readonly class Configuration
{
    public const KEEP_ALIVE_SECONDS = 15;
    private const SOCKET_PATH_MAX = 100;

    /**
     * @param string  $database         path of the SQLite file, or a "pgsql:" DSN
     * @param ?string $origin           public origin behind a proxy ("https://chat.example.org"), null = what the browser's Host says
     * @param ?string $control          where `fermata top` finds the server, "unix:/path"
     * @param bool    $isDemo           whether pages may kill the worker that holds them
     * @param bool    $isCluster        whether other servers share the channels
     * @param int     $keepAliveSeconds how often an idle stream carries a comment; the page gives up after 2.5 times that
     */
    public function __construct(
        public string $database,
        public ?string $origin = null,
        public int $keepAliveSeconds = self::KEEP_ALIVE_SECONDS,
        public ?string $control = null,
        public bool $isDemo = false,
        public bool $isCluster = false,
    ) {
    }

    /** @param array<string, string> $environment */
    public static function fromEnvironment(array $environment, string $directory): self
    {
        $origin = rtrim($environment['CHAT_ORIGIN'] ?? '', '/');
        if ($origin !== '' && !preg_match('~^https?://[^/\s]+$~', $origin)) {
            throw new \RuntimeException("CHAT_ORIGIN is \"$origin\"; write it like https://chat.example.org, without a path");
        }
        $keepAlive = filter_var(
            $environment['CHAT_KEEP_ALIVE'] ?? self::KEEP_ALIVE_SECONDS,
            FILTER_VALIDATE_INT,
            ['options' => ['min_range' => 1, 'max_range' => 300]],
        );
        if ($keepAlive === false) {
            throw new \RuntimeException('CHAT_KEEP_ALIVE must be a number of seconds from 1 to 300');
        }

        $database = ($environment['CHAT_DB'] ?? '') ?: "$directory/var/chat.sqlite";

        return new self(
            $database,
            $origin === '' ? null : $origin,
            $keepAlive,
            self::control($database),
            ($environment['CHAT_DEMO'] ?? '') === '1',
            ($environment['FERMATA_CLUSTER'] ?? '') !== '',
        );
    }

    /** Beside the database, where that is a file: what a socket's path may be long is decided by the kernel. */
    private static function control(string $database): ?string
    {
        $path = dirname($database) . '/control.sock';

        return str_starts_with($database, 'pgsql:') || strlen($path) > self::SOCKET_PATH_MAX ? null : "unix:$path";
    }

    /** Cookies are marked Secure only when the public origin is known to be HTTPS; a plain http://127.0.0.1 would lose them. */
    public function isSecure(): bool
    {
        return $this->origin !== null && str_starts_with($this->origin, 'https://');
    }
}
