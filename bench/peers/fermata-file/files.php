<?php

declare(strict_types=1);

// `php files.php PORT WORKERS FOLDER`: seed 002's script as a handler, with Fermata\File.

use Fermata\{File, Response, Server};

[, $port, $workers, $folder] = $argv;
chdir($folder);

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
    File\write($name, $text);
    return Response::text(File\read($name));
});

$server->get('/constant', static function (): Response {
    $name = unusedName();
    File\write($name, str_repeat('x', 108000));
    return Response::text(File\read($name));
});

$server->run();
