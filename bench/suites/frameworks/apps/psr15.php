<?php

declare(strict_types=1);

// A PSR-15 handler with a constant response. BENCH_GLOBALS=0 disables superglobals.

use Nyholm\Psr7\Response;
use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};

require_once __DIR__ . '/autoload.php';
require_once 'Nyholm/Psr7/autoload.php';

$handler = static fn(ServerRequestInterface $request): ResponseInterface => new Response(200, ['Content-Type' => 'text/plain'], 'Hello');
(new Fermata\Psr15\Server($handler, globals: getenv('BENCH_GLOBALS') !== '0'))->run();
