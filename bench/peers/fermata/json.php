<?php

declare(strict_types=1);

// Small JSON by a closure: the first row of the table.

use Fermata\{Request, Response, Server};

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: 1);
$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));
$server->run();
