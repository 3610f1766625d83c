<?php

/**
 * Server for `python3 -m bench unread`, whose clients do not read their responses. One worker holds all clients.
 *
 *     PORT=8080 ASSETS=FOLDER php -d extension=build/fermata.so bench/suites/unread/server.php
 */

declare(strict_types=1);

use Fermata\{Channel, Event, EventSink, Hold, Request, Response, Server, WebSocket};
use Fermata\WebSocket\Message;

use function Fermata\delay;

$port = getenv('PORT') ?: '8080';
$tls = getenv('CERTIFICATE') ?: null;
$server = new Server(
    listen: $tls === null ? "http://127.0.0.1:$port" : "https://127.0.0.1:$port",
    workers: 1,
    tls: $tls === null ? null : new Fermata\Tls(certificate: $tls, key: getenv('KEY') ?: ''),
);

$server->get('/', fn (): Response => Response::text("ok\n"));
$server->get('/big', fn (): Response => Response::text(str_repeat('x', 3_000_000)));
$server->get('/late', function (): Response {
    delay(0.3);
    return Response::text(str_repeat('x', 3_000_000));
});
$server->post('/body', fn (Request $request): Response => Response::text((string) strlen($request->body())));
$server->get('/pieces', fn (): Response => Response::stream((function (): Generator {
    for ($piece = 0; $piece < 100; $piece++) {
        yield str_repeat('x', 20_000_000);
    }
})()));
$server->get('/events', fn (): Response => Response::events(function (EventSink $out): void {
    for ($event = 0; $event < 10_000; $event++) {
        $out->send(str_repeat('x', 60_000));
    }
}));
$server->get('/output', fn (): Response => Response::output(function (): void {
    for ($piece = 0; $piece < 100; $piece++) {
        echo str_repeat('x', 5_000_000);
    }
}));
$server->get('/hold', fn (): Hold => Hold::sse('room'));
$server->post('/publish', function (): Response {
    for ($event = 0; $event < 500; $event++) {
        Channel::get('room')->publish(new Event(str_repeat('x', 60_000)));
    }
    return Response::accepted();
});
$server->websocket('/socket', message: function (WebSocket $socket, Message $message): void {
    // With the default limits, the socket's queue rejects a second message.
    $socket->trySend(str_repeat('x', min(3_000_000, (int) (string) $message)));
});
if (is_string($assets = getenv('ASSETS') ?: null)) {
    $server->static('/assets', $assets);
}

$server->run();
