<?php

/** `php server.php echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`, with an autoloader in BENCH_AUTOLOAD. */

declare(strict_types=1);

use Workerman\Connection\TcpConnection;
use Workerman\Worker;

require getenv('BENCH_AUTOLOAD');

[, $mode, $port, $certificate, $key] = $argv + [3 => '', 4 => ''];
// Workerman reads its command from $argv.
$argv = $_SERVER['argv'] = [__FILE__, 'start'];
$state = getenv('BENCH_STATE') ?: sys_get_temp_dir();
Worker::$pidFile = "$state/workerman-$port.pid";
Worker::$logFile = "$state/workerman.log";
Worker::$statusFile = "$state/workerman-$port.status";
Worker::$stdoutFile = '/dev/null';
TcpConnection::$defaultMaxSendBufferSize = 256 << 20;

$tls = $certificate !== '';
$context = ['socket' => ['backlog' => 4096]];
if ($tls) {
    $context['ssl'] = ['local_cert' => $certificate, 'local_pk' => $key, 'verify_peer' => false];
}
$worker = new Worker("websocket://127.0.0.1:$port", $context);
if ($tls) {
    $worker->transport = 'ssl';
}
$worker->count = 1;
$worker->onWebSocketConnect = static function (TcpConnection $connection, mixed $request): void {
    if ($request->header('sec-websocket-protocol') !== null) {
        $connection->headers = ['Sec-WebSocket-Protocol: bench'];
    }
};
$worker->onMessage = $mode === 'broadcast'
    ? static function (TcpConnection $_, string $data) use ($worker): void {
        foreach ($worker->connections as $connection) {
            $connection->send($data);
        }
    }
    : static fn (TcpConnection $connection, string $data) => $connection->send($data);
Worker::runAll();
