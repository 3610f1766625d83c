--TEST--
WebSocket\Client: a server that closes, breaks off, breaks the protocol or takes nothing
--EXTENSIONS--
fermata
zlib
--FILE--
<?php
require __DIR__ . '/websocket_peer.inc';

use Fermata\WebSocket\Client;

$peer = new Peer(<<<'PHP'
    $stream = welcome();
    fwrite($stream, Codec::encode('last') . Codec::encodeClose(4000, 'go'));
    $answer = take($stream);
    fclose($stream);
    $stream = welcome();
    fwrite($stream, Codec::encode("answered with $answer->closeCode"));
    fclose($stream);
    foreach (["\x83\0", Codec::encode('a', masked: true), "\x81\x01\xff", Codec::encode(str_repeat('x', 1001)), "\xc1\x01x"] as $wrong) {
        $stream = welcome();
        fwrite($stream, $wrong);
        $close = take($stream);
        fclose($stream);
        $stream = welcome();
        fwrite($stream, Codec::encode("{$close->opcode->name} $close->closeCode"));
        fclose($stream);
    }
    $stream = welcome("Sec-WebSocket-Extensions: permessage-deflate\r\n");
    $bomb = substr(gzdeflate(str_repeat("\0", 1 << 19)), 0, -2) . "\0\0\0\xff\xff";
    fwrite($stream, Codec::encode(substr(gzdeflate('small ', 0), 0), rsv1: true) . Codec::encode($bomb, Opcode::Binary, rsv1: true));
    take($stream);
    fclose($stream);
    $deaf = welcome();
    sleep(60);
    PHP);
$connect = fn (...$options) => Client::connect("ws://$peer->address/", ...$options, messageBytes: 1000);

$client = $connect();
echo $client->receive(), "\n", thrown(fn () => $client->receive()), "\n", thrown(fn () => $client->receive()), "\n";
$client = $connect();
echo $client->receive(), "\n", thrown(fn () => $client->receive()), "\n";
for ($i = 0; $i < 5; $i++) {
    $client = $connect();
    echo thrown(fn () => $client->receive()), ', ', thrown(fn () => $client->send('x')), ', ', $connect()->receive(), "\n";
}
$client = $connect(compression: true);
echo $client->receive(), "\n", thrown(fn () => $client->receive()), "\n";
$client = $connect(timeout: 0.3);
echo thrown(fn () => $client->sendBinary(str_repeat('x', 32 << 20))), "\n", thrown(fn () => $client->receive()), "\n";
?>
--EXPECT--
last
ConnectionClosedException 4000: the WebSocket is closed: 4000 go
ConnectionClosedException 4000: the WebSocket is closed: 4000 go
answered with 4000
ConnectionClosedException 1006: the WebSocket is closed: 1006
ProtocolException 1002: the opcode is reserved; use continuation, text, binary, close, ping or pong, ConnectionClosedException 1002: the WebSocket is closed: 1002 the opcode is reserved; use continuation, text, binary, close, ping or pong, Close 1002
ProtocolException 1002: a server's frame is masked; mask no frame, ConnectionClosedException 1002: the WebSocket is closed: 1002 a server's frame is masked; mask no frame, Close 1002
ProtocolException 1007: a text message is not UTF-8; encode it or send it as binary, ConnectionClosedException 1007: the WebSocket is closed: 1007 a text message is not UTF-8; encode it or send it as binary, Close 1007
ProtocolException 1009: a frame is longer than this end accepts; split the message into smaller ones, ConnectionClosedException 1009: the WebSocket is closed: 1009 a frame is longer than this end accepts; split the message into smaller ones, Close 1009
ProtocolException 1002: a reserved bit is set; negotiate the extension that uses it, ConnectionClosedException 1002: the WebSocket is closed: 1002 a reserved bit is set; negotiate the extension that uses it, Close 1002
small 
ProtocolException 1009: a message is longer than this end accepts; split it into smaller ones
TimeoutException 0: the server does not take what is sent to it; the connection is given up
ConnectionClosedException 1006: the WebSocket is closed: 1006
