<?php

declare(strict_types=1);

// Runs a FrankenPHP worker script in an application's own server, which also holds clients.

use Fermata\{Hold, Limits, Server};

require dirname(__DIR__, 2) . '/autoload.php';

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/live', static fn (): Hold => Hold::sse('https://example.com/books/1'));
(new Fermata\FrankenPhp\Worker(__DIR__ . '/worker.php', server: $server))->run();
