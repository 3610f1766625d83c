<?php

declare(strict_types=1);

// `php json.php PORT WORKERS FOLDER`: serves a small JSON response from a closure on Workerman. BENCH_AUTOLOAD is the autoloader.

use Workerman\Connection\TcpConnection;
use Workerman\Protocols\Http\{Request, Response};
use Workerman\Worker;

require getenv('BENCH_AUTOLOAD');

[, $port, $workers, $folder] = $argv;
// Workerman reads its command from $argv.
$argv = $_SERVER['argv'] = [__FILE__, 'start'];
Worker::$pidFile = "$folder/$port.pid";
Worker::$logFile = "$folder/workerman.log";
Worker::$statusFile = "$folder/$port.status";
Worker::$stdoutFile = '/dev/null';

$worker = new Worker("http://127.0.0.1:$port", ['socket' => ['backlog' => 4096]]);
$worker->count = (int) $workers;
$worker->reusePort = $worker->count > 1;
$worker->onMessage = static fn (TcpConnection $connection, Request $request) => $connection->send(
    new Response(200, ['Content-Type' => 'application/json'], json_encode(['status' => 'OK'])),
);
Worker::runAll();
