<?php

/** `php -d extension=websocket.so server.php echo|subprotocol|broadcast PORT` */

declare(strict_types=1);

use WebSocket\{Connection, MessageType, Server, ServerOptions};

[, $mode, $port] = $argv;
$server = new Server(new ServerOptions(maxConnections: 19_900));
$server->listen('127.0.0.1', (int) $port);
$server->subprotocols('bench');

/** @var array<string, Connection> $all */
$all = [];
if ($mode !== 'broadcast') {
    $server->onMessage(static function (Connection $connection, string $message): void {
        $connection->send($message, MessageType::Text);
    });
} else {
    $server->onOpen(static function (Connection $connection) use (&$all): void {
        $all[$connection->id] = $connection;
    });
    $server->onClose(static function (Connection $connection) use (&$all): void {
        unset($all[$connection->id]);
    });
    $server->onMessage(static function (Connection $_, string $message) use (&$all): void {
        foreach ($all as $connection) {
            $connection->send($message, MessageType::Text);
        }
    });
}
$server->run();
