<?php

declare(strict_types=1);

// `php -d extension=openswoole.so json.php PORT WORKERS`: small JSON by a closure.

use OpenSwoole\Http\{Request, Response, Server};

$server = new Server('127.0.0.1', (int) $argv[1], Server::SIMPLE_MODE);
$server->set([
    'worker_num' => (int) $argv[2],
    'enable_reuse_port' => true,
    // Without coroutines, which a closure that waits for nothing does not need: faster here.
    'enable_coroutine' => false,
    'http_compression' => false,
    'backlog' => 4096,
    'log_level' => 5,
]);
$server->on('request', static function (Request $request, Response $response): void {
    $response->header('Content-Type', 'application/json');
    $response->end(json_encode(['status' => 'OK']));
});
$server->start();
