<?php

declare(strict_types=1);

namespace Fermata;

/**
 * Publishes from wherever an application runs: in a handler of the server directly, from a console command, a queue worker or
 * PHP-FPM over the control socket or to GRIP edges (`FERMATA_CONTROL`, `GRIP_URL`).
 */
final class Channels
{
    private ?Grip\Publisher $publisher = null;

    /**
     * @param string|\JsonSerializable|array<mixed> $data what is no string is sent as JSON
     * @param string|null $event the name that a browser listens to; null = "message"
     * @throws Exception\FermataException|Grip\PublishFailed when it cannot be published
     */
    public function publish(string $channel, string|\JsonSerializable|array $data, ?string $event = null): void
    {
        $text = is_string($data) ? $data : json_encode($data, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        if (class_exists(Poll::class, false) && Poll::inHandler()) {
            Channel::get($channel)->publish(new Event($text, $event));
            return;
        }
        $this->publisher ??= new Grip\Publisher();
        $this->publisher->publish($channel, Grip\Item::event($text, $event));
    }
}
