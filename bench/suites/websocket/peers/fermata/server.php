<?php

/** `php -d extension=fermata.so server.php echo|subprotocol|broadcast PORT [tls]`; with tls, `-d fermata.tls_certificate=` and `tls_key=`. */

declare(strict_types=1);

use Fermata\{Channel, Event, Limits, Server, WebSocket};
use Fermata\WebSocket\{Message, Options};

/** As in ext-websocket: room for a burst of 1,000 messages of 1 KiB to a slow client. */
const QUEUE_BYTES_MAX = 16 << 20;

[, $mode, $port, $tls] = $argv + [3 => ''];
$scheme = $tls === '' ? 'http' : 'https';
$server = new Server(
    listen: "$scheme://127.0.0.1:$port",
    workers: 1,
    limits: new Limits(connections: 19_900, connectionsPerAddress: 19_900, queueBytes: QUEUE_BYTES_MAX),
);
$options = new Options(protocols: ['bench'], queueBytes: QUEUE_BYTES_MAX);
if ($mode === 'broadcast') {
    $server->websocket(
        '/',
        open: static fn (WebSocket $socket) => $socket->join('all'),
        message: static fn (WebSocket $socket, Message $message) => Channel::get('all')->publish(new Event($message->data())),
        options: $options,
    );
} else {
    $server->websocket('/', message: static fn (WebSocket $socket, Message $message) => $socket->send($message), options: $options);
}
$server->run();
