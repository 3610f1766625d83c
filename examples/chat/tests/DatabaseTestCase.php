<?php

declare(strict_types=1);

namespace Chat\Tests;

use Chat\Database;
use Chat\User;
use Chat\Users;
use PHPUnit\Framework\TestCase;

/** Creates an empty database per test: SQLite, or the PostgreSQL of CHAT_TEST_DB ("pgsql:host=…;dbname=…"). */
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

    /** Creates a user without a valid password, because hashing passwords would take most of the tests' time. */
    protected function user(string $name): User
    {
        $this->database->change(
            'INSERT INTO users (name, name_key, password_hash, created_ms) VALUES (?, ?, ?, 0)',
            [$name, \Chat\Input::nameKey($name), '!'],
        );

        return (new Users($this->database))->named($name);
    }
}
