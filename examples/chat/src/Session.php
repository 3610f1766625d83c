<?php

declare(strict_types=1);

namespace Chat;

/** Session of a signed-in browser. */
final readonly class Session
{
    /**
     * @param string $token 256 random bits in the cookie; the database stores only the hash
     * @param string $id    public id of the session, by which the tabs of one browser recognize a sign-out
     */
    public function __construct(public string $token, public string $id, public User $user)
    {
    }

    /**
     * Returns the token that a page must send with every change. Other origins can make the browser send the cookie, but can
     * neither read nor compute this token.
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
