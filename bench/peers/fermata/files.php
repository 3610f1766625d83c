<?php

declare(strict_types=1);

// `php files.php PORT WORKERS FOLDER [hooks]`: seed 002's script as a handler, with PHP's own file functions.
// `/` as in the seed, `/constant` without the loop that makes the text.

use Fermata\{Hook, Response, Runtime, Server};

[, $port, $workers, $folder] = $argv;
chdir($folder);
if (($argv[4] ?? '') === 'hooks') {
    Runtime::hook(Hook::Files);
}

function unusedName(): string
{
    do {
        $name = rand(1, 99999) . '.txt';
    } while (file_exists($name));
    return $name;
}

$server = new Server("http://127.0.0.1:$port", workers: (int) $workers);

$server->get('/', static function (): Response {
    $name = unusedName();
    $text = '';
    for ($i = 0; $i < 108000; $i++) {
        $n = rand(0, 57) + 65;
        $text .= chr($n);
    }
    file_put_contents($name, $text);
    return Response::text(file_get_contents($name));
});

$server->get('/constant', static function (): Response {
    $name = unusedName();
    file_put_contents($name, str_repeat('x', 108000));
    return Response::text(file_get_contents($name));
});

$server->run();
