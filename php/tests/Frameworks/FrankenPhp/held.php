<?php

declare(strict_types=1);

// The same worker script in a server of the program's own, which holds clients beside it.

use Fermata\{Hold, Limits, Server};

require dirname(__DIR__, 2) . '/autoload.php';

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/live', static fn (): Hold => Hold::sse('https://example.com/books/1'));
(new Fermata\FrankenPhp\Worker(__DIR__ . '/worker.php', server: $server))->run();
