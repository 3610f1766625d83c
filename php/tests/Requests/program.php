<?php

declare(strict_types=1);

/*
 * Runs the row of rows.php that a request header names. Under PHP-FPM this file is the script. In Fermata it is a FrankenPHP
 * worker script or, with FERMATA_TEST_WAY=globals, a server whose handlers call fillGlobals() and exit().
 */

use Fermata\{Limits, Request, Server};

$rows = require __DIR__ . '/rows.php';
$run = static function () use ($rows): void {
    $name = rawurldecode($_SERVER['HTTP_X_ROW']);
    unset($_SERVER['HTTP_X_ROW']);
    $rows[$name][0]();
};

if (PHP_SAPI === 'fpm-fcgi') {
    $run();
} elseif (getenv('FERMATA_TEST_WAY') === 'globals') {
    $folder = dirname(__DIR__);
    $server = new Server(limits: new Limits(handlers: 1));
    $handler = static function (Request $request) use ($run, $folder): never {
        $request->fillGlobals(['SCRIPT_NAME' => '/index.php', 'PHP_SELF' => '/index.php', 'DOCUMENT_URI' => '/index.php', 'SCRIPT_FILENAME' => "$folder/index.php", 'DOCUMENT_ROOT' => $folder]);
        $run();
        exit;
    };
    foreach (['/', '/{path...}'] as $path) {
        $server->any($path, $handler);
        $server->options($path, $handler);
    }
    $server->notFound($handler);
    $server->run();
} else {
    while (frankenphp_handle_request($run)) {
    }
}
