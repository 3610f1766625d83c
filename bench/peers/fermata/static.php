<?php

declare(strict_types=1);

// The page of seed 000 from its file: `php static.php PORT FOLDER` serves index.html of the folder.

use Fermata\Server;

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);
$server->static('/', $argv[2]);
$server->run();
