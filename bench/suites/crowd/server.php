<?php

/**
 * Server for `python3 -m bench million` and `python3 -m bench soak`: groups of held clients, and a page.
 *
 * A client subscribes to the channel of its group. A message to all is published to every group.
 *
 *     WORKERS=54 GROUPS=1000 KEEP_ALIVE=0 PORT=8080 php -d extension=build/fermata.so bench/suites/crowd/server.php
 */

declare(strict_types=1);

use Fermata\{Channel, Event, History, Hold, Limits, Log, LogLevel, Request, Response, Server};

$number = static fn (string $name, int $default): int => (int) (getenv($name) ?: $default);
$keepAlive = $number('KEEP_ALIVE', 0);
$groups = $number('GROUPS', 1);

$server = new Server(
    listen: 'http://127.0.0.1:8080',
    workers: $number('WORKERS', 2),
    control: getenv('CONTROL') ?: null,
    // Just below the hard limit of descriptors: a worker that receives too many clients responds with 503.
    limits: new Limits(connections: $number('CONNECTIONS', 19_800)),
);

$server->get('/', fn (Request $request) => Response::json(['status' => 'OK']));

$server->get('/groups/{id}/events', fn (Request $request) => Hold::sse("group.{$request->route('id')}")
    ->since($request->lastEventId())
    ->keepAlive($keepAlive));

// A long poll behind an edge: returns the group's messages after message N, or waits for the next. `fermata load` numbers them.
$server->get('/groups/{id}/poll', function (Request $request): Response {
    $name = "group.{$request->route('id')}";
    $after = (int) ($request->query('after') ?? 0);
    $history = Channel::get($name)->history(count: 100);
    $number = static fn (string $data): int => (int) hexdec(explode('.', $data)[3] ?? '0');
    $missed = array_filter($history, static fn (Event $event): bool => $number($event->data) > $after);
    if ($missed !== []) {
        return Response::text(implode("\n", array_map(static fn (Event $event): string => $event->data, $missed)));
    }
    $newest = $history === [] ? '' : '; prev-id=' . end($history)->id;
    return Response::text('')
        ->withHeader('Grip-Hold', 'response')
        ->withHeader('Grip-Channel', $name . $newest)
        ->withHeader('Grip-Timeout', '20');
});

$server->post('/groups/{id}/messages', function (Request $request): Response {
    Channel::get("group.{$request->route('id')}")->publish(new Event($request->body()));
    return Response::accepted();
});

$server->post('/all', function (Request $request) use ($groups): Response {
    $event = new Event($request->body());
    for ($group = 0; $group < $groups; $group++) {
        Channel::get("group.{$group}")->publish($event);
    }
    return Response::accepted();
});

$server->run();
