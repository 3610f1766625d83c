<?php

declare(strict_types=1);

// `php waits.php PORT WORKERS`: a handler that blocks its worker for 50 ms.

use Fermata\{Response, Server};

[, $port, $workers] = $argv;
$backend = getenv('BENCH_BACKEND');
$server = new Server("http://127.0.0.1:$port", workers: (int) $workers);
$server->get('/', static fn (): Response => Response::text(file_get_contents($backend)));
$server->run();
