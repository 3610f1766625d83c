<?php

declare(strict_types=1);

namespace Chat;

/** Registered users and their passwords. */
final readonly class Users
{
    private const FOUND_MAX = 50;

    public function __construct(private Database $database, private Passwords $passwords = new Passwords())
    {
    }

    public function register(string $name, #[\SensitiveParameter] string $password): User
    {
        $row = $this->database->row(
            'INSERT INTO users (name, name_key, password_hash, created_ms) VALUES (?, ?, ?, ?)
             ON CONFLICT (name_key) DO NOTHING RETURNING id',
            [$name, Input::nameKey($name), $this->passwords->hash($password), Clock::unixMs()],
        ) ?? throw Problem::nameTaken();

        return new User((int) $row['id'], $name);
    }

    public function withPassword(string $name, #[\SensitiveParameter] string $password): User
    {
        $row = $this->database->row(
            'SELECT id, name, seen_id, password_hash FROM users WHERE name_key = ?',
            [Input::nameKey($name)],
        );
        if ($row === null) {
            // Takes as long as checking a wrong password, so that the response time does not reveal which names exist.
            $this->passwords->hash($password);
            throw Problem::wrongPassword();
        }
        if (!$this->passwords->isRight($password, $row['password_hash'])) {
            throw Problem::wrongPassword();
        }

        return $this->user($row);
    }

    public function named(string $name): ?User
    {
        $row = $this->database->row(
            'SELECT id, name, seen_id FROM users WHERE name_key = ?',
            [Input::nameKey($name)],
        );

        return $row === null ? null : $this->user($row);
    }

    /**
     * Returns users whose names contain the text, sorted by name; for an empty text the newest users. At most FOUND_MAX.
     *
     * @return list<User>
     */
    public function find(string $words): array
    {
        $pattern = '%' . strtr(Input::nameKey($words), ['\\' => '\\\\', '%' => '\\%', '_' => '\\_']) . '%';
        $rows = $words === ''
            ? $this->database->rows('SELECT id, name, seen_id FROM users ORDER BY id DESC LIMIT ' . self::FOUND_MAX)
            : $this->database->rows(
                "SELECT id, name, seen_id FROM users WHERE name_key LIKE ? ESCAPE '\\' ORDER BY name_key LIMIT "
                    . self::FOUND_MAX,
                [$pattern],
            );

        return array_map($this->user(...), $rows);
    }

    /** Stores the newest message that the user's tabs have shown. The id never decreases, since an older tab may report later. */
    public function seen(User $user, int $messageId): void
    {
        if ($messageId > $user->seenId) {
            $this->database->change(
                'UPDATE users SET seen_id = ? WHERE id = ? AND seen_id < ?',
                [$messageId, $user->id, $messageId],
            );
        }
    }

    /** @param array<string, mixed> $row */
    private function user(array $row): User
    {
        return new User((int) $row['id'], $row['name'], (int) $row['seen_id']);
    }
}
