<?php

declare(strict_types=1);

// A worker script in a server that also holds clients. Workers are replaced at the server's or the script's request limit.

use Fermata\{Hold, Limits, Request, Server};

require dirname(__DIR__, 2) . '/autoload.php';

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/held', static fn (Request $request): Hold => Hold::sse('news')->since($request->lastEventId()));
(new Fermata\FrankenPhp\Worker(__DIR__ . '/counting.php', server: $server, requestsMax: (int) getenv('TEST_REQUESTS_MAX')))->run();
