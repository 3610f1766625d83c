<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Database;
use Chat\User;
use Chat\Users;
use PHPUnit\Framework\TestCase;

/** An empty database per test: SQLite, or the PostgreSQL that CHAT_TEST_DB names ("pgsql:host=…;dbname=…"). */
abstract class DatabaseTestCase extends TestCase
{
    protected Database $database;
    private string $directory;

    protected function setUp(): void
    {
        $this->directory = sys_get_temp_dir() . '/chat-test-' . bin2hex(random_bytes(6));
        $this->database = new Database($this->location());
        $this->database->create();
        if ($this->database->isPostgres()) {
            $this->database->change('TRUNCATE users, sessions, messages, attempts RESTART IDENTITY');
        }
    }

    protected function tearDown(): void
    {
        $this->database->close();
        array_map('unlink', glob("$this->directory/*") ?: []);
        @rmdir($this->directory);
    }

    protected function location(): string
    {
        return getenv('CHAT_TEST_DB') ?: "$this->directory/chat.sqlite";
    }

    /** A user who cannot sign in: hashing a password for each would be most of the tests' time. */
    protected function user(string $name): User
    {
        $this->database->change(
            'INSERT INTO users (name, name_key, password_hash, created_ms) VALUES (?, ?, ?, 0)',
            [$name, \Chat\Input::nameKey($name), '!'],
        );

        return (new Users($this->database))->named($name);
    }
}
