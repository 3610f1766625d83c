<?php

declare(strict_types=1);

namespace Chat;

/** Stores and reads messages, ordered by id. */
final readonly class Messages
{
    public const PAGE_MAX = 200;
    /** Maximum number of private messages of a user's absence that are sent in addition to the first page. */
    public const MISSED_MAX = 500;
    public const PUBLIC_KEPT = 100_000;
    public const PRIVATE_KEPT_DAYS = 365;
    /** Number of messages after which old ones are deleted. */
    private const PRUNE_EVERY = 1000;

    private const COLUMNS = 'SELECT m.id, m.text, m.key, m.offline, m.created_ms, m.sender_id, s.name AS sender_name,
        m.recipient_id, r.name AS recipient_name
        FROM messages m JOIN users s ON s.id = m.sender_id LEFT JOIN users r ON r.id = m.recipient_id';

    public function __construct(private Database $database)
    {
    }

    /**
     * Stores a message once. For a known key of the same sender it returns the stored message.
     *
     * @param bool $offline true if the recipient is away
     */
    public function add(User $from, ?User $to, string $text, string $key, bool $offline): Message
    {
        return $this->database->writeMessages(function () use ($from, $to, $text, $key, $offline): Message {
            $now = Clock::unixMs();
            $row = $this->database->row(
                'INSERT INTO messages (sender_id, recipient_id, text, key, offline, created_ms) VALUES (?, ?, ?, ?, ?, ?)
                 ON CONFLICT (sender_id, key) DO NOTHING RETURNING id',
                [$from->id, $to?->id, $text, $key, (int) $offline, $now],
            );
            if ($row === null) {
                return $this->message($this->database->row(
                    self::COLUMNS . ' WHERE m.sender_id = ? AND m.key = ?',
                    [$from->id, $key],
                ));
            }
            $id = (int) $row['id'];
            if ($id % self::PRUNE_EVERY === 0) {
                $this->prune($id, $now);
            }

            return new Message($id, $from, $to, $text, $key, $offline, $now);
        });
    }

    /** Returns the id of the preceding message to everyone; 0: none. */
    public function previousPublic(int $id): int
    {
        return (int) $this->database->row(
            'SELECT COALESCE(MAX(id), 0) AS id FROM messages WHERE recipient_id IS NULL AND id < ?',
            [$id],
        )['id'];
    }

    /** Returns the id of the preceding private message from or to the user; 0: none. */
    public function previousPrivate(User $user, int $id): int
    {
        $row = $this->database->row(
            'SELECT (SELECT COALESCE(MAX(id), 0) FROM messages WHERE recipient_id = ? AND id < ?) AS received,
                (SELECT COALESCE(MAX(id), 0) FROM messages WHERE sender_id = ? AND recipient_id IS NOT NULL AND id < ?) AS sent',
            [$user->id, $id, $user->id, $id],
        );

        return max((int) $row['received'], (int) $row['sent']);
    }

    /**
     * Returns the messages after the id that the user may read, oldest first.
     *
     * @return list<Message> PAGE_MAX + 1 messages if there are more than PAGE_MAX
     */
    public function after(User $user, int $id): array
    {
        return $this->select($this->visible('m.id > ?', 'm.id') . ' ORDER BY m.id LIMIT ' . self::PAGE_MAX + 1, $user, $id);
    }

    /**
     * Returns the newest messages before the id (null: the newest of all) that the user may read, oldest first.
     *
     * @return array{list<Message>, bool} the messages, and true if there are older ones
     */
    public function before(User $user, ?int $id): array
    {
        $messages = $this->select(
            $this->visible('m.id < ?', 'm.id DESC') . ' ORDER BY m.id DESC LIMIT ' . self::PAGE_MAX + 1,
            $user,
            $id ?? PHP_INT_MAX,
        );
        $more = count($messages) > self::PAGE_MAX;

        return [array_reverse(array_slice($messages, 0, self::PAGE_MAX)), $more];
    }

    /**
     * Returns the private messages to the user before the id that no tab has shown yet, oldest first.
     *
     * @return list<Message>
     */
    public function missed(User $user, int $before): array
    {
        $rows = $this->database->rows(
            self::COLUMNS . ' WHERE m.recipient_id = ? AND m.id > ? AND m.id < ? ORDER BY m.id DESC LIMIT ' . self::MISSED_MAX,
            [$user->id, $user->seenId, $before],
        );

        return array_reverse(array_map($this->message(...), $rows));
    }

    /**
     * Combines public, received and sent messages, each read from its index. One query with OR would scan the table.
     */
    private function visible(string $range, string $order): string
    {
        $part = static fn (string $which): string
            => "SELECT * FROM (SELECT m.id FROM messages m WHERE $which AND $range ORDER BY $order LIMIT " . self::PAGE_MAX + 1 . ') p';

        return self::COLUMNS . ' WHERE m.id IN ('
            . $part('m.recipient_id IS NULL') . ' UNION '
            . $part('m.recipient_id = ?') . ' UNION '
            . $part('m.sender_id = ? AND m.recipient_id IS NOT NULL') . ')';
    }

    /** @return list<Message> */
    private function select(string $sql, User $user, int $id): array
    {
        return array_map($this->message(...), $this->database->rows($sql, [$id, $user->id, $id, $user->id, $id]));
    }

    private function prune(int $newestId, int $now): void
    {
        $this->database->change(
            'DELETE FROM messages WHERE recipient_id IS NULL AND id <= ?',
            [$newestId - self::PUBLIC_KEPT],
        );
        $this->database->change(
            'DELETE FROM messages WHERE recipient_id IS NOT NULL AND created_ms < ?',
            [$now - self::PRIVATE_KEPT_DAYS * 86_400_000],
        );
    }

    /** @param array<string, mixed> $row */
    private function message(array $row): Message
    {
        return new Message(
            (int) $row['id'],
            new User((int) $row['sender_id'], $row['sender_name']),
            $row['recipient_id'] === null ? null : new User((int) $row['recipient_id'], $row['recipient_name']),
            $row['text'],
            $row['key'],
            (bool) $row['offline'],
            (int) $row['created_ms'],
        );
    }
}
