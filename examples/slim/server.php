<?php

declare(strict_types=1);

// The notes example with Slim: php -d opcache.enable_cli=1 server.php

use Fermata\Psr15\Server;

require __DIR__ . '/autoload.php';
$app = require __DIR__ . '/app.php';

(new Server(
    // Slim 4 implements PSR-15; Slim 3 has a different method.
    method_exists($app, 'handle') ? $app->handle(...) : static fn($request) => $app->process($request, new Nyholm\Psr7\Response()),
    public: __DIR__ . '/public',
))->run();
