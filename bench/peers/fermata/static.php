<?php

declare(strict_types=1);

// `php static.php PORT FOLDER`: serves FOLDER/index.html, the page of seed 000, as a static file.

use Fermata\Server;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);
$server->static('/', $argv[2]);
$server->run();
