<?php

declare(strict_types=1);

// One script for both PHP-FPM and Fermata.

use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};

$app = require __DIR__ . '/slim-app.php';
if (PHP_SAPI !== 'cli') {
    $app->run();
    return;
}
(new Fermata\Psr15\Server(static fn(ServerRequestInterface $request): ResponseInterface => $app->process($request, new Nyholm\Psr7\Response())))->run();
