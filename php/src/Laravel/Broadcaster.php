<?php

declare(strict_types=1);

namespace Fermata\Laravel;

use Fermata\Channels;
use Illuminate\Broadcasting\Broadcasters\{Broadcaster as Base, UsePusherChannelConventions};
use Symfony\Component\HttpKernel\Exception\AccessDeniedHttpException;

/**
 * Broadcasts to the server's channels: who is held on a channel gets an event of the broadcast's name, its data as JSON.
 *
 * Who may listen is decided by the route that holds the client.
 */
final class Broadcaster extends Base
{
    use UsePusherChannelConventions;

    public function __construct(private readonly Channels $publisher) {}

    /**
     * Whether the user of a request may listen to a channel, by the callbacks of routes/channels.php.
     *
     * @throws AccessDeniedHttpException when not
     */
    public function auth($request): mixed
    {
        $name = $this->normalizeChannelName((string) $request->channel_name);
        if ($name === '' || ($this->isGuardedChannel($request->channel_name) && !$this->retrieveUser($request, $name))) {
            throw new AccessDeniedHttpException();
        }
        return parent::verifyUserCanAccessChannel($request, $name);
    }

    public function validAuthenticationResponse($request, $result): mixed
    {
        return $result;
    }

    /**
     * @param array<int, string|object> $channels
     * @param string $event
     * @param array<string, mixed> $payload
     */
    public function broadcast(array $channels, $event, array $payload = []): void
    {
        // Clients have no socket ids here.
        unset($payload['socket']);
        foreach ($this->formatChannels($channels) as $channel) {
            $this->publisher->publish($channel, $payload, $event);
        }
    }
}
