<?php

declare(strict_types=1);

// `php files.php PORT WORKERS FOLDER [hooks|file]`: seed 002's script as a handler, with PHP's own file functions, with
// the same after Runtime::hook(), or with Fermata\File. `/` as in the seed, `/constant` without the loop that makes the text.

use Fermata\{File, Hook, Response, Runtime, Server};

[, $port, $workers, $folder] = $argv;
$how = $argv[4] ?? '';
chdir($folder);
if ($how === 'hooks') {
    Runtime::hook(Hook::Files);
}

function unusedName(): string
{
    do {
        $name = rand(1, 99999) . '.txt';
    } while (file_exists($name));
    return $name;
}

function randomText(): string
{
    $text = '';
    for ($i = 0; $i < 108000; $i++) {
        $n = rand(0, 57) + 65;
        $text .= chr($n);
    }
    return $text;
}

function writtenAndRead(string $text): Response
{
    $name = unusedName();
    file_put_contents($name, $text);
    return Response::text(file_get_contents($name));
}

function writtenAndReadByFile(string $text): Response
{
    $name = unusedName();
    File::write($name, $text);
    return Response::text(File::read($name));
}

$answer = $how === 'file' ? writtenAndReadByFile(...) : writtenAndRead(...);
$server = new Server("http://127.0.0.1:$port", workers: (int) $workers);
$server->get('/', static fn (): Response => $answer(randomText()));
$server->get('/constant', static fn (): Response => $answer(str_repeat('x', 108000)));
$server->run();
