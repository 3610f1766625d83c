<?php

declare(strict_types=1);

namespace Chat;

/**
 * Limits the rate of failed sign-ins and of registrations.
 *
 * The counters are stored in the database, because the next attempt may reach another worker.
 */
final readonly class Attempts
{
    public const FAILURES_PER_NAME_MAX = 5;
    public const FAILURES_PER_NAME_WINDOW_S = 60;
    public const FAILURES_PER_ADDRESS_MAX = 60;
    public const REGISTRATIONS_PER_ADDRESS_MAX = 60;
    public const PER_ADDRESS_WINDOW_S = 600;

    public function __construct(private Database $database)
    {
    }

    /**
     * Admits a sign-in and counts it as failed; `signedIn` reverts the count. Counting first prevents concurrent attempts
     * from all passing before the first has failed.
     */
    public function beforeSignIn(string $name, string $address): void
    {
        $this->count("name:$address:" . Input::nameKey($name), self::FAILURES_PER_NAME_MAX, self::FAILURES_PER_NAME_WINDOW_S);
        $this->count("address:$address", self::FAILURES_PER_ADDRESS_MAX, self::PER_ADDRESS_WINDOW_S);
    }

    public function signedIn(string $name, string $address): void
    {
        $this->database->change('DELETE FROM attempts WHERE subject = ?', [$this->subject("name:$address:" . Input::nameKey($name))]);
        $this->database->change(
            'UPDATE attempts SET count = count - 1 WHERE subject = ? AND count > 0',
            [$this->subject("address:$address")],
        );
    }

    public function beforeRegistration(string $address): void
    {
        $this->count("register:$address", self::REGISTRATIONS_PER_ADDRESS_MAX, self::PER_ADDRESS_WINDOW_S);
    }

    private function count(string $subject, int $max, int $windowSeconds): void
    {
        $now = Clock::unixMs();
        $row = $this->database->row(
            'INSERT INTO attempts (subject, count, expires_ms) VALUES (?, 1, ?) ON CONFLICT (subject) DO UPDATE SET
                count = CASE WHEN attempts.expires_ms <= ? THEN 1 ELSE attempts.count + 1 END,
                expires_ms = CASE WHEN attempts.expires_ms <= ? THEN excluded.expires_ms ELSE attempts.expires_ms END
             RETURNING count, expires_ms',
            [$this->subject($subject), $now + $windowSeconds * 1000, $now, $now],
        );
        if ($row['count'] === 1) {
            $this->database->change('DELETE FROM attempts WHERE expires_ms <= ?', [$now]);
        }
        if ($row['count'] > $max) {
            throw Problem::tooManyAttempts(max(1, intdiv($row['expires_ms'] - $now + 999, 1000)));
        }
    }

    /** Hashes the subject, so that neither addresses nor mistyped names are stored. */
    private function subject(string $subject): string
    {
        return hash('sha256', $subject);
    }
}
