<?php

declare(strict_types=1);

// `php h2.php PORT CERTIFICATE KEY`: serves a small JSON response from a closure over HTTP/2 and TLS.

use Fermata\{Request, Response, Server, Tls};

$server = new Server("https://127.0.0.1:{$argv[1]}", workers: 1, tls: new Tls($argv[2], $argv[3]));
$server->get('/', static fn (Request $request): Response => Response::json(['status' => 'OK']));
$server->run();
