<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Response;

/** The HTML pages. The path of their assets contains a hash, so no browser combines an old script with a new page. */
final readonly class Page
{
    /**
     * Allows only files of this server, no inline scripts or styles and no framing. With Trusted Types the browser rejects
     * every attempt to parse text as HTML.
     */
    private const CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'self'%s; style-src 'self'; img-src 'self'; "
        . "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        . "require-trusted-types-for 'script'; trusted-types 'none'";
    /** Additional script sources by page name. Scripts from there are verified by their hash. */
    private const PAGES = ['index' => '', 'echo' => ' https://cdn.jsdelivr.net', 'mercure' => ''];

    public string $assetsPrefix;
    /** @var array<string, Response> */
    private array $responses;

    public function __construct(string $directory)
    {
        $hash = hash_init('sha256');
        foreach (glob("$directory/assets/*") as $file) {
            hash_update_file($hash, $file);
        }
        $this->assetsPrefix = '/assets/' . substr(hash_final($hash), 0, 12);
        $responses = [];
        foreach (self::PAGES as $name => $scripts) {
            $html = str_replace('/assets/', "$this->assetsPrefix/", file_get_contents("$directory/$name.html"));
            $responses[$name] = Response::html($html)
                ->withHeader('Content-Security-Policy', sprintf(self::CONTENT_SECURITY_POLICY, $scripts))
                ->withHeader('Cross-Origin-Opener-Policy', 'same-origin')
                ->withHeader('Referrer-Policy', 'no-referrer')
                ->withHeader('X-Content-Type-Options', 'nosniff')
                ->withHeader('Cache-Control', 'no-cache');
        }
        $this->responses = $responses;
    }

    public function response(string $name = 'index'): Response
    {
        return $this->responses[$name];
    }
}
