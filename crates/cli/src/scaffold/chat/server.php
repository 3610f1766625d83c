<?php

declare(strict_types=1);

use Fermata\{Channel, Event, Hold, Request, Response, Server};
use Fermata\Exception\BadRequestException;

// Environment variables such as FERMATA_LISTEN override the settings given here.
$server = new Server(listen: 'http://127.0.0.1:8080');

$server->get('/', fn () => Response::file(__DIR__ . '/public/index.html'));

// The handler returns immediately; the server holds the client and replays missed events when it reconnects.
$server->get('/rooms/{room}/events', function (string $room, Request $request): Hold {
    $hold = Hold::sse("room.$room")->as($request->query('name', 'somebody'));
    if ($request->lastEventId() !== null) {
        return $hold->since($request->lastEventId());
    }
    // A new client receives the last messages, without join and leave events, and then every later event.
    $events = Channel::get("room.$room")->history(count: 50);
    $messages = array_filter($events, fn (Event $event) => $event->name === null);
    return $hold->with(...$messages)->since(end($events)->id ?? null);
});

$server->post('/rooms/{room}/messages', function (string $room, Request $request): Response {
    $message = $request->json();
    if (!is_array($message) || !is_string($message['text'] ?? null) || !is_string($message['name'] ?? null)) {
        throw new BadRequestException('send {"name": "…", "text": "…"}');
    }
    Channel::get("room.$room")->publish(Event::json([
        'name' => mb_substr($message['name'], 0, 40),
        'text' => mb_substr($message['text'], 0, 2000),
        'at' => time(),
    ]));
    return Response::accepted();
});

$server->get('/rooms/{room}/members', fn (string $room) => Response::json(
    array_column(Channel::get("room.$room")->members(limit: 100), 'user'),
));

$server->run();
