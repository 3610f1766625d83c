<?php

declare(strict_types=1);

namespace Chat;

/**
 * Refuses changes another site asks for in the user's name (CSRF).
 *
 * Three independent checks, since each alone has had its holes: the content type (forms of other sites cannot send JSON
 * without a preflight), the origin the browser names, and for signed-in users the token of Session::csrfToken().
 */
final readonly class Guard
{
    public function __construct(private ?string $origin = null)
    {
    }

    /** Every argument is a request header, null when it is missing. */
    public function admit(?string $contentType, ?string $origin, ?string $fetchSite, ?string $host): void
    {
        $mediaType = strtolower(trim(explode(';', $contentType ?? '', 2)[0]));
        if ($mediaType !== 'application/json') {
            throw new Problem(415, 'not_json', 'Please send application/json.');
        }
        if ($fetchSite !== null && $fetchSite !== 'same-origin') {
            throw Problem::forged('This request came from another site.');
        }
        // Browsers name the origin with every POST; programs such as curl do not, and need no protection.
        if ($origin !== null && !$this->isOwn($origin, $host)) {
            throw Problem::forged('This request came from another site.');
        }
    }

    private function isOwn(string $origin, ?string $host): bool
    {
        if ($this->origin !== null) {
            return strcasecmp($origin, $this->origin) === 0;
        }

        return $host !== null
            && (strcasecmp($origin, "http://$host") === 0 || strcasecmp($origin, "https://$host") === 0);
    }
}
