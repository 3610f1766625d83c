<?php

declare(strict_types=1);

namespace Chat;

/** A signed-in browser. */
final readonly class Session
{
    /**
     * @param string $token 256 random bits in the cookie; the database keeps only its hash
     * @param string $id    public name of the session: tells the tabs of one browser that they were signed out
     */
    public function __construct(public string $token, public string $id, public User $user)
    {
    }

    /**
     * What a page must send back to change anything. Other origins can make the browser send the cookie, but they can
     * neither read this token nor compute it.
     */
    public function csrfToken(): string
    {
        return hash_hmac('sha256', 'csrf', $this->token);
    }

    public function isCsrfToken(?string $token): bool
    {
        return $token !== null && hash_equals($this->csrfToken(), $token);
    }
}
