<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\{Channels, Pusher};
use Illuminate\Broadcasting\BroadcastException;
use Illuminate\Broadcasting\Broadcasters\{Broadcaster as Base, UsePusherChannelConventions};
use Symfony\Component\HttpKernel\Exception\AccessDeniedHttpException;

/**
 * Broadcasts to the server's channels. Every client held on a channel and every Laravel Echo subscriber receives an event with
 * the broadcast's name and its data as JSON.
 *
 * With the connection's `key` and `secret`, Server::run() serves the Pusher protocol and auth() signs private and presence
 * channels for Echo. Without them the route that holds a client authorizes it.
 */
final class Broadcaster extends Base
{
    use UsePusherChannelConventions;

    /** Default `prefix` of the connection: prepended to the names of the channels that Echo clients may subscribe to. */
    private const PREFIX = 'live.';

    private readonly ?string $key;
    private readonly ?string $secret;
    private readonly string $prefix;

    /** @param array<string, mixed> $config configuration of the connection in config/broadcasting.php */
    public function __construct(private readonly Channels $publisher, array $config = [])
    {
        $this->key = self::text($config, 'key');
        $this->secret = self::text($config, 'secret');
        if (($this->key === null) !== ($this->secret === null)) {
            throw new \InvalidArgumentException('config/broadcasting.php: key and secret of a connection with the driver fermata belong together; set both or neither');
        }
        $this->prefix = self::text($config, 'prefix') ?? ($this->key === null ? '' : self::PREFIX);
    }

    /**
     * Returns the Pusher application that a connection's configuration declares. Returns null if the configuration has no key.
     *
     * @param array<string, mixed> $config configuration of the connection; its `options` are named arguments of Pusher
     */
    public static function pusher(array $config): ?Pusher
    {
        $own = new self(new Channels(), $config);
        if ($own->key === null || $own->secret === null) {
            return null;
        }
        $options = $config['options'] ?? [];
        return new Pusher(...[
            'sharedPrefix' => $own->prefix,
            ...$options,
            'appId' => self::text($config, 'app_id') ?? '1',
            'key' => $own->key,
            'secret' => $own->secret,
        ]);
    }

    /** @param array<string, mixed> $config */
    private static function text(array $config, string $name): ?string
    {
        $value = $config[$name] ?? null;
        return $value === null || $value === '' ? null : (string) $value;
    }

    /**
     * Authorizes the user of a request for a channel with the callbacks of routes/channels.php.
     *
     * @throws AccessDeniedHttpException if the user may not listen
     */
    public function auth($request): mixed
    {
        $channel = (string) $request->channel_name;
        $name = $this->normalizeChannelName($channel);
        if ($name === '' || ($this->isGuardedChannel($channel) && !$this->retrieveUser($request, $name))) {
            throw new AccessDeniedHttpException();
        }
        if ($this->secret !== null && (!$this->isGuardedChannel($channel) || self::isEncrypted($channel) || !self::isSocketId($request->socket_id))) {
            throw new AccessDeniedHttpException();
        }
        return parent::verifyUserCanAccessChannel($request, $name);
    }

    public function validAuthenticationResponse($request, $result): mixed
    {
        if ($this->secret === null) {
            return $result;
        }
        $channel = (string) $request->channel_name;
        if (!str_starts_with($channel, 'presence-')) {
            return $this->signed("{$request->socket_id}:$channel");
        }
        $user = $this->retrieveUser($request, $this->normalizeChannelName($channel));
        $data = self::json(['user_id' => (string) self::identifier($user), 'user_info' => $result]);
        return $this->signed("{$request->socket_id}:$channel:$data") + ['channel_data' => $data];
    }

    /** Authenticates Echo's user at `/broadcasting/user-auth`. */
    public function resolveAuthenticatedUser($request): mixed
    {
        // Laravel 8 has no such route.
        $user = method_exists(parent::class, 'resolveAuthenticatedUser') ? parent::resolveAuthenticatedUser($request) : null;
        if (!$user || $this->secret === null || !self::isSocketId($request->socket_id)) {
            return $this->secret === null ? $user : null;
        }
        $data = self::json($user);
        return $this->signed("{$request->socket_id}::user::$data") + ['user_data' => $data];
    }

    /** @return array{auth: string} */
    private function signed(string $text): array
    {
        return ['auth' => $this->key . ':' . hash_hmac('sha256', $text, (string) $this->secret)];
    }

    /**
     * Returns true if the value has the format of a socket id. With other characters, it could forge other parts of the signed
     * text.
     */
    private static function isSocketId(mixed $id): bool
    {
        return is_string($id) && preg_match('/^[0-9]{1,40}\.[0-9]{1,40}$/D', $id) === 1;
    }

    private static function isEncrypted(string $channel): bool
    {
        return str_starts_with($channel, 'private-encrypted-');
    }

    private static function identifier(object $user): mixed
    {
        return method_exists($user, 'getAuthIdentifierForBroadcasting') ? $user->getAuthIdentifierForBroadcasting() : $user->getAuthIdentifier();
    }

    private static function json(mixed $data): string
    {
        return json_encode($data, JSON_THROW_ON_ERROR);
    }

    /**
     * @param array<int, string|object> $channels
     * @param string $event
     * @param array<string, mixed> $payload
     */
    public function broadcast(array $channels, $event, array $payload = []): void
    {
        // With toOthers(): socket id of the page that caused the broadcast.
        $socket = self::isSocketId($payload['socket'] ?? null) ? $payload['socket'] : null;
        unset($payload['socket']);
        foreach ($this->formatChannels($channels) as $channel) {
            if ($this->secret !== null && self::isEncrypted((string) $channel)) {
                throw new BroadcastException("$channel: the driver fermata does not encrypt events; broadcast on a PrivateChannel, over TLS");
            }
            $this->publisher->publish($this->prefix . $channel, $payload, $event, $this->secret === null ? null : $socket);
        }
    }
}
