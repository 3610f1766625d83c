<?php

/**
 * `php streams.php ws://127.0.0.1:PORT/ COUNT [SUBPROTOCOL]`: a client without a library, like the loop of seed 003.
 */

declare(strict_types=1);

[, $url, $count, $subprotocol] = $argv + [3 => ''];
$address = 'tcp://' . parse_url($url, PHP_URL_HOST) . ':' . parse_url($url, PHP_URL_PORT);
$offer = $subprotocol === '' ? '' : "Sec-WebSocket-Protocol: $subprotocol\r\n";

$before = getrusage();
$start = hrtime(true);
for ($i = 0; $i < (int) $count; $i++) {
    $stream = stream_socket_client($address, $code, $message, 5) ?: exit($message);
    $key = base64_encode(random_bytes(16));
    fwrite($stream, "GET / HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        . "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: $key\r\n$offer\r\n");
    $head = '';
    while (!str_contains($head, "\r\n\r\n")) {
        $bytes = fread($stream, 8192);
        if ($bytes === '' || $bytes === false) {
            exit('the connection ended in the handshake');
        }
        $head .= $bytes;
    }
    $accept = base64_encode(sha1($key . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11', true));
    if (!str_starts_with($head, 'HTTP/1.1 101 ') || !str_contains($head, $accept)) {
        exit("no upgrade: $head");
    }
    if ($subprotocol !== '' && !preg_match("/^sec-websocket-protocol:\\s*$subprotocol\\s*$/im", $head)) {
        exit("another subprotocol: $head");
    }
    // Send a masked Close frame with code 1000 and read the server's Close frame.
    $mask = random_bytes(4);
    fwrite($stream, "\x88\x82" . $mask . ("\x03\xe8" ^ substr($mask, 0, 2)));
    $answer = '';
    while (strlen($answer) < 2) {
        $bytes = fread($stream, 8192);
        if ($bytes === '' || $bytes === false) {
            exit('the connection ended without a Close frame');
        }
        $answer .= $bytes;
    }
    if ($answer[0] !== "\x88") {
        exit('no Close frame came');
    }
    fclose($stream);
}
require __DIR__ . '/report.php';
