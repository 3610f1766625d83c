<?php

declare(strict_types=1);

// A server of a cluster: publishes from many concurrent tasks and reports the time this took, and holds clients.

use Fermata\Ack;
use Fermata\Channel;
use Fermata\Event;
use Fermata\Hold;
use Fermata\Request;
use Fermata\Response;
use Fermata\Server;

$server = new Server(listen: "http://127.0.0.1:{$argv[1]}");
$server->get('/ready', fn(Request $request): Response => Response::text('ready'));
$server->get('/events/{group}', fn(Request $request): Hold => Hold::sse("group.{$request->route('group')}")
    ->since($request->lastEventId()));
$server->post('/publish/{group}', fn(Request $request): Response => Response::text(
    Channel::get("group.{$request->route('group')}")->publish(new Event($request->body())),
));
$server->post('/publish', function (Request $request): Response {
    $channel = Channel::get('bench');
    $tasks = (int) $request->query('tasks');
    $each = intdiv((int) $request->query('count'), $tasks);
    $ack = Ack::from($request->query('ack'));
    $data = str_repeat('x', (int) $request->query('bytes'));
    $began = hrtime(true);
    $running = [];
    for ($task = 0; $task < $tasks; $task++) {
        $running[] = Fermata\async(function () use ($channel, $each, $data, $ack): void {
            for ($number = 0; $number < $each; $number++) {
                $channel->publish($data, ack: $ack);
            }
        });
    }
    foreach ($running as $one) {
        $one->await();
    }
    return Response::text((string) (hrtime(true) - $began));
});
$server->run();
