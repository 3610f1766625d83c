--TEST--
WebSocket\Client: opens, sends and receives, answers pings, closes
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/websocket_peer.inc';

use Fermata\WebSocket\{Client, CloseCode};

$peer = new Peer(<<<'PHP'
    [$stream, $head, $accept] = meet();
    fwrite($stream, "HTTP/1.1 101 Yes\r\nupgrade: WebSocket\r\nconnection: upgrade\r\nSec-WebSocket-Protocol: v1\r\n"
        . "Sec-WebSocket-Accept: $accept\r\n\r\n" . Codec::encode($head));
    while ($frame = take($stream)) {
        $said = "{$frame->opcode->name} $frame->payload";
        if ($frame->opcode === Opcode::Ping) {
            fwrite($stream, Codec::encode($frame->payload, Opcode::Pong));
        } elseif ($frame->opcode === Opcode::Close) {
            fwrite($stream, Codec::encodeClose($frame->closeCode, "you said $frame->closeReason"));
            exit;
        } elseif ($frame->opcode === Opcode::Binary) {
            // In fragments, with a ping before them.
            fwrite($stream, Codec::encode('ping', Opcode::Ping) . Codec::encode('bin', Opcode::Binary, fin: false)
                . Codec::encode("\xff", Opcode::Continuation));
        } else {
            fwrite($stream, Codec::encode($said));
        }
    }
    PHP);
$client = Client::connect("ws://$peer->address/chat?room=7", ['v2', 'v1'], ['Cookie' => 'a=b', 'X-Two' => ['1', '2']], timeout: 600);
echo preg_replace(['/127.0.0.1:\d+/', '/(?<=Key: ).{24}/', '/\r/'], ['ADDRESS', 'KEY', ''], $client->receive()), $client->protocol(), "\n";
$client->send('grüße');
echo $client->receive(), "\n";
$client->sendBinary("\0");
var_dump($client->receive()->isBinary());
echo $client->receive(10), "\n";
var_dump($client->lastPong());
$client->ping('are you there');
var_dump($client->receive(0.05), $client->lastPong());
echo thrown(fn () => $client->send("\xff")), "\n", thrown(fn () => $client->ping(str_repeat('x', 126))), "\n",
    thrown(fn () => $client->close(1005)), "\n", thrown(fn () => $client->close(1000, str_repeat('x', 124))), "\n",
    thrown(fn () => $client->receive(-1)), "\n";
var_dump($client->isOpen(), $client->closeCode());
$client->close(CloseCode::GoingAway, 'bye');
$client->close();
var_dump($client->isOpen(), $client->closeCode(), $client->closeReason());
echo thrown(fn () => $client->send('late')), "\n", thrown(fn () => $client->receive()), "\n";
?>
--EXPECT--
GET /chat?room=7 HTTP/1.1
Host: ADDRESS
Upgrade: websocket
Connection: Upgrade
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: KEY
Sec-WebSocket-Protocol: v2, v1
Cookie: a=b
X-Two: 1
X-Two: 2

v1
Text grüße
bool(true)
Pong ping
NULL
NULL
string(13) "are you there"
MisuseError 0: the text is not UTF-8; encode it or send it as binary
MisuseError 0: the payload of a ping has at most 125 bytes; send less
MisuseError 0: the close code must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
MisuseError 0: the reason has to be UTF-8 of at most 123 bytes; shorten it
MisuseError 0: timeout must be 0 to 86400 seconds, not -1
bool(true)
NULL
bool(false)
int(1001)
string(12) "you said bye"
ConnectionClosedException 1001: the WebSocket is closed: 1001 you said bye
ConnectionClosedException 1001: the WebSocket is closed: 1001 you said bye
