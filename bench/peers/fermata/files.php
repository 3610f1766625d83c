<?php

declare(strict_types=1);

// `php files.php PORT WORKERS FOLDER [hooks|file]`: the script of seed 002 as a handler. It uses PHP's file functions, or with
// `hooks` the hooked ones, or with `file` Fermata\File. `/` is the script; `/constant` omits the loop that generates the text.

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
