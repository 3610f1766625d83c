<?php

declare(strict_types=1);

namespace Chat;

/**
 * Rejects cross-site request forgery (CSRF).
 *
 * Three independent checks, because each alone has been bypassed in the past: the content type (forms of other sites
 * cannot send JSON without a preflight), the browser's Origin, and for signed-in users the token of Session::csrfToken().
 */
final readonly class Guard
{
    public function __construct(private ?string $origin = null)
    {
    }

    /** Each argument is the value of a request header; null: missing. */
    public function admit(?string $contentType, ?string $origin, ?string $fetchSite, ?string $host): void
    {
        $mediaType = strtolower(trim(explode(';', $contentType ?? '', 2)[0]));
        if ($mediaType !== 'application/json') {
            throw new Problem(415, 'not_json', 'Please send application/json.');
        }
        if ($fetchSite !== null && $fetchSite !== 'same-origin') {
            throw Problem::forged('This request came from another site.');
        }
        // Browsers send Origin with every POST. Clients such as curl do not, and need no protection.
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
