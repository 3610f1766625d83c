<?php

declare(strict_types=1);

// `php -d extension=swoole.so json.php PORT WORKERS`: serves a small JSON response from a closure on Swoole or OpenSwoole.

[$class, $mode] = extension_loaded('openswoole')
    ? [OpenSwoole\Http\Server::class, OpenSwoole\Server::SIMPLE_MODE]
    : [Swoole\Http\Server::class, SWOOLE_BASE];
$server = new $class('127.0.0.1', (int) $argv[1], $mode);
$server->set([
    'worker_num' => (int) $argv[2],
    'enable_reuse_port' => true,
    // The closure never waits, so a coroutine per request would only add cost.
    'enable_coroutine' => false,
    'http_compression' => false,
    'backlog' => 4096,
    'log_level' => 5,
]);
$server->on('request', static function (object $request, object $response): void {
    $response->header('Content-Type', 'application/json');
    $response->end(json_encode(['status' => 'OK']));
});
$server->start();
