<?php

declare(strict_types=1);

// A server for the Autobahn Testsuite: an echo with room for its largest messages, and all
// compression options.

use Fermata\Server;
use Fermata\WebSocket;
use Fermata\WebSocket\Compression;
use Fermata\WebSocket\Message;
use Fermata\WebSocket\Options;

$server = new Server(workers: 1);
$server->websocket('/', message: fn(WebSocket $socket, Message $message) => $socket->send($message), options: new Options(
    origins: ['*'],
    messageBytes: 32 << 20,
    queueBytes: 64 << 20,
    compression: new Compression(serverContextTakeover: true, clientContextTakeover: true),
));
$server->run();
