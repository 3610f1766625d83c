<?php

declare(strict_types=1);

// Serves one client after another: accept, read, write, close. A client that connects and sends nothing blocks all others.

const REQUEST_BYTES_MAX = 16384;

$listener = stream_socket_server("tcp://127.0.0.1:{$argv[1]}", $code, $message,
    STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 1024]]));
if ($listener === false) {
    exit("$message\n");
}

$answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\nConnection: close\r\n\r\n"
    . '{"status":"OK"}';

while (true) {
    $client = stream_socket_accept($listener, -1);
    if ($client === false) {
        continue;
    }
    $request = fread($client, REQUEST_BYTES_MAX);
    if ($request !== false && $request !== '') {
        fwrite($client, $answer);
    }
    fclose($client);
}
