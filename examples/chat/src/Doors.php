<?php

declare(strict_types=1);

namespace Chat;

use Fermata\Mercure;
use Fermata\Pusher;
use Fermata\Request;
use Fermata\Server;

/**
 * The chat for clients of two more protocols: Laravel Echo and pusher-js, and `EventSource` at a hub of Mercure.
 *
 * The names of the channels do it. What begins with `chat.` is shared, and what goes on with `private-` needs a right:
 * `chat.private-all` is `Echo.private('all')`, and the private updates of Mercure's topic `all`.
 */
final readonly class Doors
{
    public const PREFIX = self::SHARED . 'private-';
    public const HUB_PATH = '/.well-known/mercure';
    public const COOKIE = 'mercureAuthorization';
    /** A stream ends with its token, and its page asks for another one. */
    public const TOKEN_S = 600;
    private const SHARED = 'chat.';
    private const PRIVATE = 'private-';

    /** @param string $secret what signs for clients. Nobody else publishes by these protocols, so nobody else has it. */
    public function __construct(#[\SensitiveParameter] private string $secret)
    {
    }

    /** @param \Closure(Request): ?Session $session who asks */
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
            // What is said goes through the database, and not from page to page.
            clientEvents: false,
        ));
        $server->mercure(new Mercure(subscriberKey: $this->secret, cookieName: self::COOKIE, sharedPrefix: self::SHARED));
    }

    /**
     * What a user may listen to, as these protocols call it.
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

    /** A JSON web token that lets a user's pages subscribe. */
    public function tokenFor(User $user): string
    {
        $encode = static fn (string $bytes): string => rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
        $claims = ['exp' => time() + self::TOKEN_S, 'mercure' => ['subscribe' => self::namesFor($user)]];
        $signed = $encode('{"alg":"HS256","typ":"JWT"}') . '.' . $encode(json_encode($claims, JSON_THROW_ON_ERROR));

        return "$signed." . $encode(hash_hmac('sha256', $signed, $this->secret, true));
    }
}
