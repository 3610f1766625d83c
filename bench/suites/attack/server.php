<?php

/**
 * Target of `python3 -m bench attack`: bodies, files, streams, uploads and WebSockets with two workers.
 *
 *     WORKERS=2 PORT=8080 ASSETS=… php -d extension=build/fermata.so bench/suites/attack/server.php
 */

declare(strict_types=1);

use Fermata\{Request, Response, Server, WebSocket};
use Fermata\WebSocket\Message;

$server = new Server(
    listen: 'http://127.0.0.1:8080',
    workers: (int) (getenv('WORKERS') ?: 2),
    control: getenv('CONTROL') ?: null,
);

$server->get('/', fn (Request $request): Response => Response::json(['status' => 'OK']));
$server->get('/items/{id}', fn (Request $request): Response => Response::text($request->route('id')));
$server->post('/body', fn (Request $request): Response => Response::text((string) strlen($request->body())));
$server->post('/upload', fn (Request $request): Response => Response::text((string) $request->file('f')?->size));
$server->get('/text', fn (Request $request): Response => new Response(200, str_repeat('0123456789', 10_000)));
$server->get('/stream', fn (Request $request): Response => Response::stream((function (): Generator {
    for ($piece = 0; $piece < 1_000; $piece++) {
        yield str_repeat('x', 10_000);
    }
})()));
$server->websocket('/echo', message: fn (WebSocket $socket, Message $message) => $socket->send($message));
if (is_string($assets = getenv('ASSETS') ?: null)) {
    $server->static('/assets', $assets);
}

$server->run();
