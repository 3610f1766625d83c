<?php

declare(strict_types=1);

/*
 * The chat server. Start it with
 *
 *     php -d extension=build/fermata.so examples/chat/server.php
 *
 * and open http://127.0.0.1:8000 in several tabs. The README next to this file explains how it works.
 */

use Chat\Application;
use Chat\Configuration;
use Chat\Database;
use Chat\Page;
use Chat\Passwords;
use Fermata\Server;

require __DIR__ . '/src/autoload.php';

if (!class_exists(Server::class)) {
    fwrite(STDERR, "The extension fermata is not loaded. Run \"make chat\", or start PHP with -d extension=build/fermata.so\n");
    exit(1);
}

$configuration = Configuration::fromEnvironment(getenv(), __DIR__);
$database = new Database($configuration->database);
$database->create();
$page = new Page(__DIR__ . '/public');

$server = new Server(listen: 'http://127.0.0.1:8000', workers: 2, control: $configuration->control);
$server->static($page->assetsPrefix, __DIR__ . '/public/assets');
$passwords = new Passwords($server->jobs());
(new Application($configuration, $database, $page, $passwords))->register($server);
$server->run();
