<?php

declare(strict_types=1);

// `php pauses.php PORT WORKERS`: a handler that sleeps 50 ms without blocking its worker.

use Fermata\{Response, Server};
use function Fermata\delay;

[, $port, $workers] = $argv;
$server = new Server("http://127.0.0.1:$port", workers: (int) $workers);
$server->get('/', static function (): Response {
    delay(0.05);
    return Response::text("OK\n");
});
$server->run();
