<?php

declare(strict_types=1);

// Serves a small JSON response from a closure on amphp/http-server. BENCH_AUTOLOAD is the autoloader.

use Amp\Http\Server\{DefaultErrorHandler, Request, RequestHandler\ClosureRequestHandler, Response, SocketHttpServer};
use Amp\Socket\{BindContext, InternetAddress};
use Psr\Log\NullLogger;

require getenv('BENCH_AUTOLOAD');

$server = SocketHttpServer::createForDirectAccess(
    new NullLogger(),
    enableCompression: false,
    connectionLimit: 4096,
    connectionLimitPerIp: 4096,
    concurrencyLimit: null,
);
$server->expose(
    new InternetAddress('127.0.0.1', (int) $argv[1]),
    (new BindContext())->withBacklog(4096)->withTcpNoDelay(),
);
$server->start(new ClosureRequestHandler(static function (Request $request): Response {
    $body = json_encode(['status' => 'OK']);
    return new Response(
        // Without the length, the body would be chunked.
        headers: ['content-type' => 'application/json', 'content-length' => (string) strlen($body)],
        body: $body,
    );
}), new DefaultErrorHandler());
Amp\trapSignal([SIGINT, SIGTERM]);
$server->stop();
