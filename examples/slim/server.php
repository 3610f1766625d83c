<?php

declare(strict_types=1);

// The same notes with Slim: php -d opcache.enable_cli=1 server.php

use Fermata\Psr15\Server;

require __DIR__ . '/autoload.php';
$app = require __DIR__ . '/app.php';

(new Server(
    // Slim 4 is a handler of PSR-15; Slim 3 is called in its own way.
    method_exists($app, 'handle') ? $app->handle(...) : static fn($request) => $app->process($request, new Nyholm\Psr7\Response()),
    public: __DIR__ . '/public',
))->run();
