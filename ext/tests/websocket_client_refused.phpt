--TEST--
WebSocket\Client::connect(): what cannot work, refusals and wrong answers
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/websocket_peer.inc';

use Fermata\WebSocket\Client;

foreach (['http://a/', 'ws:///x', 'nonsense', "ws://a/\n", 'ws://a/#b', 'ws://u:p@a/'] as $url) {
    echo thrown(fn () => Client::connect($url)), "\n";
}
foreach ([[['a', 'a'], []], [['a b'], []], [[1], []], [[], ['Host' => 'x']], [[], ['Sec-WebSocket-Key' => 'x']], [[], ["a\n" => 'x']]] as [$protocols, $headers]) {
    echo thrown(fn () => Client::connect('ws://127.0.0.1:9/', $protocols, $headers)), "\n";
}
echo thrown(fn () => Client::connect('ws://127.0.0.1:9/', timeout: -1)), "\n";
$closed = stream_socket_server('tcp://127.0.0.1:0');
$address = stream_socket_get_name($closed, false);
fclose($closed);
echo thrown(fn () => Client::connect("ws://$address")), "\n";

$peer = new Peer(<<<'PHP'
    foreach ([
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n",
        '',
    ] as $answer) {
        [$stream] = meet();
        fwrite($stream, $answer);
        fclose($stream);
    }
    fclose(welcome("Sec-WebSocket-Protocol: other\r\n"));
    fclose(welcome("Sec-WebSocket-Extensions: permessage-deflate\r\n"));
    [$silent] = meet();
    sleep(60);
    PHP);
for ($i = 0; $i < 6; $i++) {
    echo thrown(fn () => Client::connect("ws://$peer->address/", ['mine'])), "\n";
}
echo thrown(fn () => Client::connect("ws://$peer->address/", timeout: 0.2)), "\n";
?>
--EXPECT--
MisuseError 0: the URL must be ws://host/path or wss://host/path, with other characters percent-encoded
MisuseError 0: the URL must be ws://host/path or wss://host/path, with other characters percent-encoded
MisuseError 0: the URL must be ws://host/path or wss://host/path, with other characters percent-encoded
MisuseError 0: the URL must be ws://host/path or wss://host/path, with other characters percent-encoded
MisuseError 0: the URL must have no user and no fragment; send a header Authorization instead
MisuseError 0: the URL must have no user and no fragment; send a header Authorization instead
MisuseError 0: subprotocols have to be different names without spaces
MisuseError 0: subprotocols have to be different names without spaces
TypeError 0: Fermata\WebSocket\Client::connect(): Argument #2 ($subprotocols) must hold strings, int found
MisuseError 0: the header "Host" is the client's own; leave it out
MisuseError 0: the header "Sec-WebSocket-Key" is the client's own; leave it out
MisuseError 0: the header "a\n" is malformed; leave out line breaks and control characters
MisuseError 0: timeout must be 0 to 86400 seconds, not -1
ConnectionException 0: tcp://ADDRESS cannot be reached: Connection refused
ConnectionException 403: the server has refused the WebSocket with status 403
ProtocolException 1002: the response is not HTTP/1.1; connect to a WebSocket server
ProtocolException 1002: Sec-WebSocket-Accept is missing or does not match the key
ConnectionException 0: tcp://ADDRESS cannot be reached: it has closed the connection without an answer
ProtocolException 1002: the server has chosen a subprotocol that was not offered; choose one of those offered or none
ProtocolException 1002: the server accepted an extension that was not offered; accept only an offered one or none
TimeoutException 0: tcp://ADDRESS cannot be reached: it does not answer in time
