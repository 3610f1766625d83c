<?php

declare(strict_types=1);

use Fermata\{Channel, Event, Hold, Request, Response, Server};

// FERMATA_LISTEN and every other setting of the environment win over what is said here.
$server = new Server(listen: 'http://127.0.0.1:8080');

$server->get('/', fn () => Response::file(__DIR__ . '/public/index.html'));

$server->get('/events', function (Request $request): Hold {
    if ($request->lastEventId() !== null) {
        return Hold::sse('load')->since($request->lastEventId());
    }
    // A page that is opened begins with the minute before.
    $minute = Channel::get('load')->history(count: 60);
    return Hold::sse('load')->with(...$minute)->since(end($minute)->id ?? null);
});

// In one worker, once a second, whether anybody looks or not; what it publishes reaches the clients of all workers.
$server->every(1.0, function (): void {
    [$one] = sys_getloadavg();
    Channel::get('load')->publish(Event::json(['load' => round($one, 2), 'at' => time()]));
});

$server->run();
