<?php

declare(strict_types=1);

namespace Chat;

/** Stores sessions in the database, so that users stay signed in across a restart of the server. */
final readonly class Sessions
{
    public const LIFETIME_S = 30 * 86400;
    public const PER_USER_MAX = 20;

    public function __construct(private Database $database)
    {
    }

    public function start(User $user): Session
    {
        $session = new Session(bin2hex(random_bytes(32)), bin2hex(random_bytes(8)), $user);
        $now = Clock::unixMs();
        $this->database->change(
            'INSERT INTO sessions (token_hash, id, user_id, created_ms, expires_ms) VALUES (?, ?, ?, ?, ?)',
            [$this->hash($session->token), $session->id, $user->id, $now, $now + self::LIFETIME_S * 1000],
        );
        $this->forgetOld($user, $now);

        return $session;
    }

    public function find(?string $token): ?Session
    {
        if ($token === null || !preg_match('/^[0-9a-f]{64}$/D', $token)) {
            return null;
        }
        $row = $this->database->row(
            'SELECT s.id, s.expires_ms, s.user_id, u.name, u.seen_id FROM sessions s JOIN users u ON u.id = s.user_id
             WHERE s.token_hash = ?',
            [$this->hash($token)],
        );
        if ($row === null || $row['expires_ms'] <= Clock::unixMs()) {
            return null;
        }

        return new Session($token, $row['id'], new User((int) $row['user_id'], $row['name'], (int) $row['seen_id']));
    }

    public function end(Session $session): void
    {
        $this->database->change('DELETE FROM sessions WHERE token_hash = ?', [$this->hash($session->token)]);
    }

    private function forgetOld(User $user, int $now): void
    {
        $this->database->change('DELETE FROM sessions WHERE expires_ms <= ?', [$now]);
        $this->database->change(
            'DELETE FROM sessions WHERE user_id = ? AND token_hash NOT IN
                (SELECT token_hash FROM sessions WHERE user_id = ? ORDER BY created_ms DESC LIMIT ' . self::PER_USER_MAX . ')',
            [$user->id, $user->id],
        );
    }

    /** A fast hash suffices: a token of 256 random bits cannot be guessed. */
    private function hash(#[\SensitiveParameter] string $token): string
    {
        return hash('sha256', $token);
    }
}
