<?php

declare(strict_types=1);

// A worker script whose workers are replaced, by the server's bound or by the script's own, in a server that holds clients beside it.

use Fermata\{Hold, Limits, Request, Server};

require dirname(__DIR__, 2) . '/autoload.php';

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/held', static fn (Request $request): Hold => Hold::sse('news')->since($request->lastEventId()));
(new Fermata\FrankenPhp\Worker(__DIR__ . '/counting.php', server: $server, requestsMax: (int) getenv('TEST_REQUESTS_MAX')))->run();
