<?php

declare(strict_types=1);

// Minimal PHP server for a small JSON response: stream_select, fread, fwrite. It does not parse requests and sends a
// constant. stream_select supports only about a thousand clients.

const REQUEST_BYTES_MAX = 16384;

$listener = stream_socket_server("tcp://127.0.0.1:{$argv[1]}", $code, $message,
    STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 1024]]));
if ($listener === false) {
    exit("$message\n");
}
stream_set_blocking($listener, false);

$answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n"
    . "Date: Sat, 21 Nov 2026 00:00:00 GMT\r\n\r\n{\"status\":\"OK\"}";
$streams = [(int) $listener => $listener];

while (true) {
    $readable = $streams;
    $writable = $except = null;
    if (stream_select($readable, $writable, $except, null) === false) {
        break;
    }
    foreach ($readable as $id => $stream) {
        if ($stream === $listener) {
            $client = stream_socket_accept($listener, 0);
            if ($client !== false) {
                stream_set_blocking($client, false);
                stream_set_read_buffer($client, 0);
                $streams[(int) $client] = $client;
            }
            continue;
        }
        $request = fread($stream, REQUEST_BYTES_MAX);
        if ($request === false || $request === '') {
            unset($streams[$id]);
            fclose($stream);
            continue;
        }
        fwrite($stream, str_repeat($answer, substr_count($request, "\r\n\r\n")));
    }
}
