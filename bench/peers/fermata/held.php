<?php

declare(strict_types=1);

// The server of seed 001: a client is told that its stream is open and then held in the channel of its topic.

use Fermata\{Channel, Event, Hold, Request, Response, Server, WebSocket};
use Fermata\WebSocket\Options;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);

$server->get('/stream/{topic}', static fn (Request $request): Hold => Hold::sse($request->route('topic'))
    ->with(new Event('stream open', name: 'message'))
    ->keepAlive(0));

$server->get('/alive/{topic}', static fn (Request $request): Hold => Hold::sse($request->route('topic'))
    ->with(new Event('stream open', name: 'message'))
    ->keepAlive(55));

// Some fifty to a channel, as the streams are.
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
