<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Exception\BackpressureException;
use Fermata\Exception\TimeoutException;
use Fermata\Jobs;

/** Hashes passwords in a job process. A hash takes about 50 ms by design, while the worker serves other requests. */
final readonly class Passwords
{
    private const BCRYPT_COST = 10;

    /** @param ?Jobs $jobs null = hash in the current process, as in tests and scripts */
    public function __construct(private ?Jobs $jobs = null)
    {
        $jobs?->add('password.hash', self::hashNow(...))->add('password.verify', password_verify(...));
    }

    public function hash(#[\SensitiveParameter] string $password): string
    {
        return $this->jobs === null ? self::hashNow($password) : $this->run('password.hash', $password);
    }

    public function isRight(#[\SensitiveParameter] string $password, string $hash): bool
    {
        return $this->jobs === null ? password_verify($password, $hash) : $this->run('password.verify', $password, $hash);
    }

    private static function hashNow(#[\SensitiveParameter] string $password): string
    {
        return password_hash($password, PASSWORD_BCRYPT, ['cost' => self::BCRYPT_COST]);
    }

    private function run(string $job, #[\SensitiveParameter] string ...$arguments): mixed
    {
        try {
            return $this->jobs->run($job, ...$arguments);
        } catch (BackpressureException | TimeoutException) {
            throw Problem::busy();
        }
    }
}
