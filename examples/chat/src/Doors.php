<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Mercure;
use Fermata\Pusher;
use Fermata\Request;
use Fermata\Server;

/**
 * Serves the chat over two more protocols: Pusher for Laravel Echo and pusher-js, and a Mercure hub for `EventSource`.
 *
 * Channel names select the access: names with the prefix `chat.` are shared with these protocols, and those with
 * `chat.private-` require authorization. `chat.private-all` is `Echo.private('all')`, or the private updates of the topic `all`.
 */
final readonly class Doors
{
    public const PREFIX = self::SHARED . 'private-';
    public const HUB_PATH = '/.well-known/mercure';
    public const COOKIE = 'mercureAuthorization';
    /** Lifetime of a token in seconds. The stream closes when its token expires, and the page requests a new token. */
    public const TOKEN_S = 600;
    private const SHARED = 'chat.';
    private const PRIVATE = 'private-';

    /** @param string $secret signs subscribers' tokens. It is not shared: no external publisher uses these protocols. */
    public function __construct(#[\SensitiveParameter] private string $secret)
    {
    }

    /** @param \Closure(Request): ?Session $session returns the session of a request */
    public function register(Server $server, \Closure $session): void
    {
        $server->pusher(new Pusher(
            'chat',
            'chat',
            $this->secret,
            sharedPrefix: self::SHARED,
            authorize: static function (Request $request, string $channel) use ($session): bool {
                $user = $session($request)?->user;

                return $user !== null && str_starts_with($channel, self::PRIVATE)
                    && in_array(substr($channel, strlen(self::PRIVATE)), self::namesFor($user), true);
            },
            // Messages pass through the database, not directly between pages.
            clientEvents: false,
        ));
        $server->mercure(new Mercure(subscriberKey: $this->secret, cookieName: self::COOKIE, sharedPrefix: self::SHARED));
    }

    /**
     * Returns the channels that a user may subscribe to, as named in these protocols.
     *
     * @return list<string>
     */
    public static function namesFor(User $user): array
    {
        return array_map(
            static fn (string $channel): string => substr($channel, strlen(self::PREFIX)),
            [Application::CHANNEL, $user->channel()],
        );
    }

    /** Returns a JSON Web Token that authorizes a user's pages to subscribe. */
    public function tokenFor(User $user): string
    {
        $encode = static fn (string $bytes): string => rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
        $claims = ['exp' => time() + self::TOKEN_S, 'mercure' => ['subscribe' => self::namesFor($user)]];
        $signed = $encode('{"alg":"HS256","typ":"JWT"}') . '.' . $encode(json_encode($claims, JSON_THROW_ON_ERROR));

        return "$signed." . $encode(hash_hmac('sha256', $signed, $this->secret, true));
    }
}
