<?php

declare(strict_types=1);

use Fermata\{Channel, Event, Hold, Request, Response, Server};

// Environment variables such as FERMATA_LISTEN override the settings given here.
$server = new Server(listen: 'http://127.0.0.1:8080');

$server->get('/', fn () => Response::file(__DIR__ . '/public/index.html'));

$server->get('/events', function (Request $request): Hold {
    if ($request->lastEventId() !== null) {
        return Hold::sse('load')->since($request->lastEventId());
    }
    // A new page starts with the values of the last minute.
    $minute = Channel::get('load')->history(count: 60);
    return Hold::sse('load')->with(...$minute)->since(end($minute)->id ?? null);
});

// Runs in one worker every second, also without clients; the event reaches the clients of all workers.
$server->every(1.0, function (): void {
    [$one] = sys_getloadavg();
    Channel::get('load')->publish(Event::json(['load' => round($one, 2), 'at' => time()]));
});

$server->run();
