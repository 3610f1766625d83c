<?php

declare(strict_types=1);

// Backend of all proxies: a small response, a large response, a request body that is read completely, and WebSocket echo.

use Fermata\{Request, Response, Server, WebSocket};
use Fermata\WebSocket\Message;

const LARGE_BYTES = 1 << 20;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);
$large = str_repeat('fermata ', LARGE_BYTES / 8);

$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));
$server->get('/large', static fn (Request $request): Response => Response::text($large));
$server->post('/up', static fn (Request $request): Response => Response::json(['bytes' => strlen($request->body())]));
$server->websocket('/echo', message: static fn (WebSocket $socket, Message $message) => $socket->send($message));

$server->run();
