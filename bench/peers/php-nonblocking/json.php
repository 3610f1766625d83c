<?php

declare(strict_types=1);

// `php json.php PORT PROCESSES`: polls all its non-blocking sockets in turn in an endless loop. With several processes, each polls
// the clients that it has accepted, like the prefork server of seed 004.

const REQUEST_BYTES_MAX = 16384;

$listener = stream_socket_server("tcp://127.0.0.1:{$argv[1]}", $code, $message,
    STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 1024]]));
if ($listener === false) {
    exit("$message\n");
}
stream_set_blocking($listener, false);

for ($process = 1; $process < (int) $argv[2]; $process++) {
    if (pcntl_fork() === 0) {
        break;
    }
}

$answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"OK\"}";
$clients = [];

while (true) {
    while (($client = @stream_socket_accept($listener, 0)) !== false) {
        stream_set_blocking($client, false);
        stream_set_read_buffer($client, 0);
        $clients[] = $client;
    }
    foreach ($clients as $id => $client) {
        $request = fread($client, REQUEST_BYTES_MAX);
        if ($request !== false && $request !== '') {
            fwrite($client, str_repeat($answer, substr_count($request, "\r\n\r\n")));
        } elseif (feof($client)) {
            unset($clients[$id]);
            fclose($client);
        }
    }
}
