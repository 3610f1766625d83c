<?php

declare(strict_types=1);

/* What `fermata routes` asks a program: Server::run() calls this before it binds. */
return static function (Fermata\Server $server): never {
    file_put_contents(__DIR__ . '/routes.json', json_encode($server->routes(), JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE));
    exit(0);
};
