--TEST--
WebSocket\Client: a server that never stops sending cannot hold a call beyond its time-out
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/websocket_peer.inc';

use Fermata\WebSocket\Client;

$peer = new Peer(<<<'PHP'
    function flood($stream, string $bytes): void {
        // Reads the client's pongs, so that they do not block the client.
        stream_set_blocking($stream, false);
        do {
            $read = [$stream];
            $write = [$stream];
            $none = null;
            stream_select($read, $write, $none, 60);
            if ($read && fread($stream, 65536) === '' && feof($stream)) { return; }
        } while (@fwrite($stream, $bytes) !== false);
    }
    flood(welcome(), str_repeat(Codec::encode('', Opcode::Ping), 1000));
    flood(welcome(), str_repeat(Codec::encode('x'), 1000));
    $stream = welcome();
    fwrite($stream, Codec::encodeClose(CloseCode::Normal));
    flood($stream, str_repeat(Codec::encode('x'), 1000));
    PHP);
$connect = fn () => Client::connect("ws://$peer->address/", timeout: 600);

$client = $connect();
var_dump($client->receive(timeout: 0.1));
unset($client);

$client = $connect();
$client->close(timeout: 0.1);
var_dump($client->closeCode());
unset($client);

echo thrown(fn () => $connect()->receive()), "\n";
?>
--EXPECT--
NULL
int(1006)
ConnectionClosedException 1000: the WebSocket is closed: 1000
