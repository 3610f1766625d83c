<?php

declare(strict_types=1);

// The same as a route of the server's own.

use Fermata\{Response, Server};

$server = new Server();
$server->get('/books/{id}', static fn(): Response => Response::text('Hello'));
$server->run();
