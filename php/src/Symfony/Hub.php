<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Channels;
use Symfony\Component\Mercure\HubInterface;
use Symfony\Component\Mercure\Jwt\{StaticTokenProvider, TokenFactoryInterface, TokenProviderInterface};
use Symfony\Component\Mercure\Update;

/**
 * Mercure hub that publishes to the server's channels: an update goes to the channel of each of its topics.
 *
 * The route that holds a client authorizes it, so private updates are sent like public ones and no token is needed. The server
 * assigns its own event ids.
 */
final class Hub implements HubInterface
{
    /** @param string $url URL of the route that holds clients, for templates */
    public function __construct(private readonly Channels $channels, private readonly string $url = '/.well-known/mercure') {}

    public function getUrl(): string
    {
        return $this->url;
    }

    public function getPublicUrl(): string
    {
        return $this->url;
    }

    public function getProvider(): TokenProviderInterface
    {
        return new StaticTokenProvider('');
    }

    public function getFactory(): ?TokenFactoryInterface
    {
        return null;
    }

    public function publish(Update $update): string
    {
        foreach ($update->getTopics() as $topic) {
            $this->channels->publish($topic, $update->getData(), $update->getType());
        }
        return $update->getId() ?? 'urn:uuid:' . self::uuid();
    }

    private static function uuid(): string
    {
        $bytes = random_bytes(16);
        $bytes[6] = chr(ord($bytes[6]) & 0x0f | 0x40);
        $bytes[8] = chr(ord($bytes[8]) & 0x3f | 0x80);
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }
}
