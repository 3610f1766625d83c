<?php

declare(strict_types=1);

use Fermata\Internal\Routes;

/* Writes the routes for `fermata routes`: Server::run() calls this function before it binds. */
return static function (Fermata\Server $server): never {
    $routes = class_exists(Routes::class, false) ? Routes::with($server->routes()) : $server->routes();
    file_put_contents(__DIR__ . '/routes.json', json_encode($routes, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE));
    exit(0);
};
