<?php

declare(strict_types=1);

// The chat server of seed 000 on Fermata. It serves a page from memory, sends a message to one user or to all and echoes
// it to the sender, and holds one event stream per browser tab. The channel's history stores messages for offline users.

use Fermata\{Channel, Event, Hold, Request, Response, Server};

$page = file_get_contents($argv[2]);

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);

$server->get('/', static fn (Request $request): Response => Response::html($page));

$server->get('/msg/{from}/{text}', static function (Request $request): Response {
    [$target, $message] = explode(' ', $request->route('text'), 2) + [1 => null];
    if ($message === null) {
        return new Response(400);
    }
    $from = $request->route('from');
    if ($target === 'all') {
        Channel::get('all')->publish(new Event("$from to all: $message"));
    } else {
        Channel::get("user.$target")->publish(new Event("$from: $message"));
        Channel::get("user.$from")->publish(new Event("You to $target: $message"));
    }
    return Response::accepted();
});

$server->get('/{user}', static function (Request $request): Hold|Response {
    if (!str_contains($request->header('accept', ''), 'text/event-stream')) {
        return new Response(404);
    }
    $user = $request->route('user');
    return Hold::sse("user.$user", 'all')
        ->as($user)
        ->since($request->lastEventId())
        ->with(new Event("Welcome $user!"));
});

$server->run();
