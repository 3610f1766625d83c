<?php

declare(strict_types=1);

// Server of seed 001: sends a first event on each stream, then holds the client in the channel of its topic.

use Fermata\{Channel, Event, Hold, Request, Response, Server, WebSocket};
use Fermata\WebSocket\Options;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);

$server->get('/stream/{topic}', static fn (Request $request): Hold => Hold::sse($request->route('topic'))
    ->with(new Event('stream open', name: 'message'))
    ->keepAlive(0));

$server->get('/alive/{topic}', static fn (Request $request): Hold => Hold::sse($request->route('topic'))
    ->with(new Event('stream open', name: 'message'))
    ->keepAlive(55));

// About fifty clients per channel, like the streams.
$server->websocket(
    '/socket/{topic}',
    open: static fn (WebSocket $socket) => $socket->join('group-' . crc32($socket->id()) % 360),
    options: new Options(pingIntervalMs: 0),
);

$server->post('/publish/{topic}', static function (Request $request): Response {
    Channel::get($request->route('topic'))->publish(new Event($request->body()));
    return Response::accepted();
});

$server->run();
