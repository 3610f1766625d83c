<?php

declare(strict_types=1);

namespace Chat;

/** Configuration from the environment. The server itself reads its settings (PORT, FERMATA_*). */
final readonly class Configuration
{
    public const KEEP_ALIVE_SECONDS = 15;
    private const SOCKET_PATH_MAX = 100;

    /**
     * @param string  $database         path of the SQLite file, or a "pgsql:" DSN
     * @param ?string $origin           public origin behind a proxy ("https://chat.example.org"), null = from the Host header
     * @param ?string $control          control socket for `fermata top`, "unix:/path"
     * @param bool    $isDemo           true if pages may kill the worker that holds them
     * @param bool    $isCluster        true if other servers share the channels
     * @param int     $keepAliveSeconds interval of comments on an idle stream; a page reconnects after 2.5 silent intervals
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

    /** Returns a socket path next to the database file; null if the path exceeds the kernel's limit. */
    private static function control(string $database): ?string
    {
        $path = dirname($database) . '/control.sock';

        return str_starts_with($database, 'pgsql:') || strlen($path) > self::SOCKET_PATH_MAX ? null : "unix:$path";
    }

    /** Returns true if cookies are marked Secure: only with an HTTPS origin, since plain HTTP would lose them. */
    public function isSecure(): bool
    {
        return $this->origin !== null && str_starts_with($this->origin, 'https://');
    }
}
