<?php

declare(strict_types=1);

use Fermata\{Channel, Request, Response, Server};

use function Fermata\async;

$server = new Server(listen: 'http://127.0.0.1:8080');
$server->gets('/', fn () => Response::text('a method that there is not'));
$server->get('/too-few');
$server->get('/', fn (Request $request) => Response::text($request->bodies()));
Channel::open('a static method that there is not');
async(fn () => 1)->wait();
new Fermata\Serve();
strlen(async(fn (): int => 1)->await());
