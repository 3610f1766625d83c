<?php

declare(strict_types=1);

use Fermata\{Channel, Event, Hold, Request, Response, Server};

$server = new Server();
$server->get('/', fn(): Response => Response::text('Hello'));
$server->get('/events', fn(Request $request): Hold => Hold::sse('news')->since($request->lastEventId()));
$server->post('/events', function (Request $request): Response {
    Channel::get('news')->publish(new Event($request->body(), 'posted'));
    return Response::accepted();
});
$server->run();
