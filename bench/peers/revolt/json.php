<?php

declare(strict_types=1);

// Serves a small JSON response on Revolt's event loop, with a callback per readable socket. BENCH_AUTOLOAD is the autoloader.

use Revolt\EventLoop;

const REQUEST_BYTES_MAX = 16384;

require getenv('BENCH_AUTOLOAD');

$listener = stream_socket_server("tcp://127.0.0.1:{$argv[1]}", $code, $message,
    STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 1024]]));
if ($listener === false) {
    exit("$message\n");
}
stream_set_blocking($listener, false);

$answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"OK\"}";

$read = static function (string $id, mixed $client) use ($answer): void {
    $request = fread($client, REQUEST_BYTES_MAX);
    if ($request === false || $request === '') {
        EventLoop::cancel($id);
        fclose($client);
        return;
    }
    fwrite($client, str_repeat($answer, substr_count($request, "\r\n\r\n")));
};
EventLoop::onReadable($listener, static function (string $_, mixed $listener) use ($read): void {
    $client = @stream_socket_accept($listener, 0);
    if ($client !== false) {
        stream_set_blocking($client, false);
        stream_set_read_buffer($client, 0);
        EventLoop::onReadable($client, $read);
    }
});
EventLoop::run();
