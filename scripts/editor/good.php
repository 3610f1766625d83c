<?php

declare(strict_types=1);

use Fermata\{Channel, Event, Future, Hold, Limits, Pool, Request, Response, Server, WebSocket};
use Fermata\Exception\BadRequestException;
use Fermata\Sync\{Mutex, Queue};

use function Fermata\{all, async, await, delay, timeout};

Fermata\Runtime::hook();
$server = new Server(listen: 'http://127.0.0.1:8080', workers: 2, limits: new Limits(connections: 1000));

$server->get('/', fn () => Response::html('<p>Hello</p>'));
$server->get('/events', fn (Request $request) => Hold::sse('room')->since($request->lastEventId()));
$server->get('/users/{id}', fn (int $id): Response => Response::json(['id' => $id]));
$server->post('/messages', function (Request $request): Response {
    if ($request->body() === '') {
        throw new BadRequestException('nothing was sent');
    }
    Channel::get('room')->publish(new Event($request->body()));
    return Response::accepted();
});
$server->websocket('/socket', message: fn (WebSocket $socket, WebSocket\Message $message) => $socket->send((string) $message));

/** @return Future<string> */
function later(): Future
{
    return async(function (): string {
        delay(0.1);
        return 'text';
    });
}
$pool = new Pool(fn () => new PDO('sqlite::memory:'), 4);
$server->get('/waits', function () use ($pool): Response {
    $mutex = new Mutex();
    $queue = new Queue(10);
    $queue->push($mutex->synchronized(fn () => 1));
    $count = $pool->use(fn (PDO $database) => (int) $database->query('SELECT 1')->fetchColumn());
    [$first, $second] = all(later(), fn () => 'other');
    return Response::text(strtoupper(await(later())) . timeout(1.0, fn () => $count) . $first . $second);
});
$server->run();
