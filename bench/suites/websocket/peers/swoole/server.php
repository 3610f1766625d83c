<?php

/** `php -d extension=swoole.so server.php echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`: one process, like all peers. */

declare(strict_types=1);

use Swoole\Http\{Request, Response};
use Swoole\WebSocket\{Frame, Server};

[, $mode, $port, $certificate, $key] = $argv + [3 => '', 4 => ''];
$tls = $certificate !== '';
$server = new Server('127.0.0.1', (int) $port, SWOOLE_BASE, $tls ? SWOOLE_SOCK_TCP | SWOOLE_SSL : SWOOLE_SOCK_TCP);
$server->set([
    'worker_num' => 1,
    'max_connection' => 19_900,
    'socket_buffer_size' => 16 << 20,
    'log_level' => 5,
    // The server selects this subprotocol even if the client does not offer it, so set it only in this mode.
    ...$mode === 'subprotocol' ? ['websocket_subprotocol' => 'bench'] : [],
    ...$tls ? ['ssl_cert_file' => $certificate, 'ssl_key_file' => $key] : [],
]);
$all = [];
$server->on('open', static function (Server $_, Request $request) use (&$all): void {
    $all[$request->fd] = true;
});
$server->on('close', static function (Server $_, int $fd) use (&$all): void {
    unset($all[$fd]);
});
$server->on('message', $mode === 'broadcast'
    ? static function (Server $server, Frame $frame) use (&$all): void {
        foreach ($all as $fd => $_) {
            $server->push($fd, $frame->data);
        }
    }
    : static fn (Server $server, Frame $frame) => $server->push($frame->fd, $frame->data));
$server->start();
