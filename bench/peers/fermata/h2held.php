<?php

declare(strict_types=1);

// `php h2held.php PORT TLS_PORT CERTIFICATE KEY`: holds event streams over HTTP/1.1 and HTTP/2, with and without TLS.

use Fermata\{Channel, Event, Hold, Request, Response, Server, Tls};

$server = new Server(["http://127.0.0.1:{$argv[1]}", "https://127.0.0.1:{$argv[2]}"], workers: 1, tls: new Tls($argv[3], $argv[4]));
$server->get('/held', static fn (Request $request): Hold => Hold::sse('held')->with(new Event('open'))->keepAlive(0));
$server->post('/publish', static function (Request $request): Response {
    Channel::get('held')->publish(new Event($request->body()));
    return Response::accepted();
});
$server->run();
