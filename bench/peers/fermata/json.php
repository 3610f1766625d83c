<?php

declare(strict_types=1);

// `php json.php PORT WORKERS`: serves a small JSON response from a closure.

use Fermata\{Request, Response, Server};

$server = new Server("http://127.0.0.1:{$argv[1]}", workers: (int) $argv[2]);
$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));
$server->run();
