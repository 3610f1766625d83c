<?php

declare(strict_types=1);

// Server for comparing I/O drivers: a small response, an echo, and one message to many held clients.

use Fermata\{Channel, Event, Hold, Request, Response, Server, WebSocket};
use Fermata\WebSocket\Message;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);

$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));

$server->get('/hold', static fn (Request $request): Hold => Hold::sse('all')->keepAlive(0));

$server->post('/publish', static function (Request $request): Response {
    Channel::get('all')->publish(new Event($request->body()));
    return Response::accepted();
});

$server->websocket('/echo', message: static fn (WebSocket $socket, Message $message) => $socket->send($message));

$server->run();
