<?php

declare(strict_types=1);

// A route of Fermata's own router with the response of the other applications.

use Fermata\{Response, Server};

$server = new Server();
$server->get('/books/{id}', static fn(): Response => Response::text('Hello'));
$server->run();
