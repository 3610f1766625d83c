<?php

declare(strict_types=1);

namespace Chat;

use PDO;

/**
 * Database access: SQLite by default, PostgreSQL if the setting is a "pgsql:" DSN.
 *
 * Each worker opens a separate connection on first use, because forked processes must not share a connection.
 */
final class Database
{
    private const BUSY_TIMEOUT_MS = 5000;
    private const PAGES_CACHED_KB = 8192;
    /** Arbitrary key of the PostgreSQL advisory lock that makes message ids grow in the order of commits. */
    private const MESSAGES_LOCK = 0xFE24A7A;
    private const SCHEMA_LOCK = 0xFE24A7B;

    private ?PDO $pdo = null;
    private int $process = 0;
    /** @var array<string, \PDOStatement> */
    private array $statements = [];

    public function __construct(private readonly string $location)
    {
    }

    public function isPostgres(): bool
    {
        return str_starts_with($this->location, 'pgsql:');
    }

    /** Creates the missing file, folder and tables. Call it once before the workers are forked. */
    public function create(): void
    {
        $directory = dirname($this->location);
        if (!$this->isPostgres() && !is_dir($directory) && !@mkdir($directory, 0o700, true) && !is_dir($directory)) {
            throw new \RuntimeException("Cannot create the folder $directory for the chat's database (CHAT_DB)");
        }
        // Servers of a cluster may start concurrently, and neither database supports concurrent creation of the same table.
        $lock = $this->isPostgres() ? null : @fopen("$this->location.lock", 'c');
        if ($this->isPostgres()) {
            $this->pdo()->exec('SELECT pg_advisory_lock(' . self::SCHEMA_LOCK . ')');
        } elseif ($lock) {
            flock($lock, LOCK_EX);
        }
        foreach ($this->schema() as $statement) {
            $this->pdo()->exec($statement);
        }
        $this->close();
    }

    /** Returns a secret that all servers share; the first caller creates it. Call it before the workers are forked. */
    public function secret(string $name): string
    {
        $this->change(
            'INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING',
            [$name, bin2hex(random_bytes(32))],
        );
        $secret = $this->row('SELECT value FROM secrets WHERE name = ?', [$name])['value'];
        $this->close();

        return $secret;
    }

    public function close(): void
    {
        $this->statements = [];
        $this->pdo = null;
    }

    /**
     * @param array<int|string, scalar|null> $parameters
     * @return list<array<string, mixed>>
     */
    public function rows(string $sql, array $parameters = []): array
    {
        $statement = $this->execute($sql, $parameters);
        $rows = $statement->fetchAll();
        $statement->closeCursor();

        return $rows;
    }

    /**
     * @param array<int|string, scalar|null> $parameters
     * @return ?array<string, mixed>
     */
    public function row(string $sql, array $parameters = []): ?array
    {
        return $this->rows($sql, $parameters)[0] ?? null;
    }

    /**
     * @param array<int|string, scalar|null> $parameters
     * @return int the number of rows changed
     */
    public function change(string $sql, array $parameters = []): int
    {
        return $this->execute($sql, $parameters)->rowCount();
    }

    /**
     * Runs the work under an exclusive lock for writing messages. Ids thus grow in the order of commits: after a reader has
     * seen id N, no new message with a smaller id appears.
     *
     * @template T
     * @param callable(): T $work
     * @return T
     */
    public function writeMessages(callable $work): mixed
    {
        $pdo = $this->pdo();
        if ($this->isPostgres()) {
            $pdo->exec('BEGIN');
            $pdo->exec('SELECT pg_advisory_xact_lock(' . self::MESSAGES_LOCK . ')');
        } else {
            $pdo->exec('BEGIN IMMEDIATE');
        }
        try {
            $result = $work();
            $pdo->exec('COMMIT');
        } catch (\Throwable $failure) {
            if ($this->pdo === $pdo) {
                $pdo->exec('ROLLBACK');
            }
            throw $failure;
        }

        return $result;
    }

    /** @param array<int|string, scalar|null> $parameters */
    private function execute(string $sql, array $parameters): \PDOStatement
    {
        $pdo = $this->pdo();
        try {
            $statement = $this->statements[$sql] ??= $pdo->prepare($sql);
            $statement->execute($parameters);
        } catch (\PDOException $failure) {
            // PostgreSQL was restarted or the network failed: this request fails, the next one reconnects.
            if ($this->isPostgres() && preg_match('/^(08|57P|HY000)/', (string) $failure->getCode())) {
                $this->close();
            }
            throw $failure;
        }

        return $statement;
    }

    private function pdo(): PDO
    {
        if ($this->pdo !== null && $this->process === getmypid()) {
            return $this->pdo;
        }
        $this->statements = [];
        $this->process = getmypid();

        return $this->pdo = $this->open();
    }

    private function open(): PDO
    {
        $options = [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
        ];
        if ($this->isPostgres()) {
            return new PDO($this->location, options: $options);
        }
        // The file contains private messages and password hashes, and its folder may be readable by all users.
        $mask = umask(0o077);
        try {
            $pdo = new PDO("sqlite:$this->location", options: $options);
            $pdo->exec('PRAGMA busy_timeout = ' . self::BUSY_TIMEOUT_MS);
            // WAL: readers and the writer do not block each other. NORMAL syncs only at checkpoints, so no message waits for the
            // disk. A killed process loses nothing; a power failure may lose the last messages.
            $pdo->exec('PRAGMA journal_mode = WAL');
            $pdo->exec('PRAGMA synchronous = NORMAL');
            $pdo->exec('PRAGMA foreign_keys = ON');
            $pdo->exec('PRAGMA cache_size = -' . self::PAGES_CACHED_KB);
        } catch (\PDOException $failure) {
            throw new \RuntimeException(
                "Cannot open the chat's database $this->location (CHAT_DB): {$failure->getMessage()}",
                previous: $failure,
            );
        } finally {
            umask($mask);
        }

        return $pdo;
    }

    /** @return list<string> */
    private function schema(): array
    {
        $id = $this->isPostgres()
            ? 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY'
            : 'INTEGER PRIMARY KEY AUTOINCREMENT';

        return [
            "CREATE TABLE IF NOT EXISTS users (
                id $id, name TEXT NOT NULL, name_key TEXT NOT NULL UNIQUE, password_hash TEXT NOT NULL,
                seen_id BIGINT NOT NULL DEFAULT 0, created_ms BIGINT NOT NULL)",
            'CREATE TABLE IF NOT EXISTS sessions (
                token_hash TEXT PRIMARY KEY, id TEXT NOT NULL, user_id BIGINT NOT NULL REFERENCES users (id),
                created_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL)',
            'CREATE INDEX IF NOT EXISTS sessions_of_user ON sessions (user_id, created_ms)',
            "CREATE TABLE IF NOT EXISTS messages (
                id $id, sender_id BIGINT NOT NULL REFERENCES users (id), recipient_id BIGINT REFERENCES users (id),
                text TEXT NOT NULL, key TEXT NOT NULL, offline SMALLINT NOT NULL DEFAULT 0,
                created_ms BIGINT NOT NULL, UNIQUE (sender_id, key))",
            'CREATE INDEX IF NOT EXISTS messages_to_recipient ON messages (recipient_id, id)',
            'CREATE INDEX IF NOT EXISTS messages_private_from ON messages (sender_id, id) WHERE recipient_id IS NOT NULL',
            'CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL)',
            'CREATE TABLE IF NOT EXISTS attempts (
                subject TEXT PRIMARY KEY, count BIGINT NOT NULL, expires_ms BIGINT NOT NULL)',
        ];
    }
}
