<?php

declare(strict_types=1);

namespace Fermata;

/**
 * Publishes events from any PHP process of an application. In a handler the event goes to the server directly. In a console
 * command, a queue worker or PHP-FPM it goes over the control socket (`FERMATA_CONTROL`) or to GRIP edges (`GRIP_URL`).
 */
final class Channels
{
    private ?Grip\Publisher $publisher = null;

    /**
     * @param string|\JsonSerializable|array<mixed> $data a string is sent unchanged, other values as JSON
     * @param string|null $event the event name that browsers listen for; null = "message"
     * @param string|null $exceptSocket socket id of the Laravel Echo client to exclude; has no effect outside a handler
     * @throws Exception\FermataException|Grip\PublishFailed if the event cannot be published
     */
    public function publish(string $channel, string|\JsonSerializable|array $data, ?string $event = null, ?string $exceptSocket = null): void
    {
        $text = is_string($data) ? $data : json_encode($data, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        if (class_exists(Poll::class, false) && Poll::inHandler()) {
            $exceptSocket === null
                ? Channel::get($channel)->publish(new Event($text, $event))
                : Channel::get($channel)->publishExcept(new Event($text, $event), $exceptSocket);
            return;
        }
        $this->publisher ??= new Grip\Publisher();
        $this->publisher->publish($channel, Grip\Item::event($text, $event));
    }
}
