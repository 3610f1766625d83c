<?php

declare(strict_types=1);

/*
 * WebSockets: an echo, and rooms whose members receive each other's messages.
 *
 *     php -d extension=build/fermata.so examples/websocket.php
 *
 * In the browser's console, on http://127.0.0.1:8080/ :
 *
 *     const socket = new WebSocket(`ws://${location.host}/rooms/7?name=Ada`);
 *     socket.onmessage = ({ data }) => console.log(data);
 *     socket.send('Hello');
 *
 * docs/websocket.md explains this example.
 */

use Fermata\{Channel, Event, Response, Server, WebSocket, WebSocketHandler};
use Fermata\WebSocket\{Message, Upgrade};

$server = new Server(listen: 'http://127.0.0.1:8080', workers: 2);

$server->get('/', fn () => Response::html('<!doctype html><title>WebSocket</title><p>Open the console of this page.'));

$server->websocket('/echo', message: fn (WebSocket $socket, Message $message) => $socket->send($message));

$server->websocket('/rooms/{id}', new class extends WebSocketHandler {
    public function upgrade(Upgrade $upgrade): void
    {
        $request = $upgrade->request();
        $name = trim($request->query('name', ''));
        if ($name === '' || strlen($name) > 40) {
            $upgrade->refuse(Response::text("Say who you are: /rooms/7?name=Ada\n", 400));

            return;
        }
        // The server stores the data until the connection closes; no PHP object represents the idle connection.
        $upgrade->setData(['name' => $name, 'room' => "room.{$request->route('id')}"]);
    }

    public function open(WebSocket $socket): void
    {
        ['name' => $name, 'room' => $room] = $socket->data();
        $socket->join($room, user: $name);
        Channel::get($room)->publish(new Event("$name is here"), except: $socket);
    }

    public function message(WebSocket $socket, Message $message): void
    {
        if ($message->isBinary()) {
            $socket->close(WebSocket\CloseCode::Unsupported, 'text only');

            return;
        }
        ['name' => $name, 'room' => $room] = $socket->data();
        // The core sends the message to the members in all workers, except the sender.
        Channel::get($room)->publish(new Event("$name: $message"), except: $socket);
    }

    public function close(WebSocket $socket, int $code, string $reason): void
    {
        ['name' => $name, 'room' => $room] = $socket->data();
        Channel::get($room)->publish(new Event("$name has left"));
    }
});

$server->run();
