<?php

declare(strict_types=1);

// `php waits.php PORT WORKERS`: a handler that waits 50 ms for an HTTP backend, in a hooked PHP function.

use Fermata\{Hook, Response, Runtime, Server};

[, $port, $workers] = $argv;
Runtime::hook(Hook::Streams);

$backend = getenv('BENCH_BACKEND');
$server = new Server("http://127.0.0.1:$port", workers: (int) $workers);
$server->get('/', static fn (): Response => Response::text(file_get_contents($backend)));
$server->run();
