--TEST--
What join() refuses
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', open: function (WebSocket $socket) {
    foreach ([
        fn () => $socket->join(''),
        fn () => $socket->join(str_repeat('x', 256)),
        fn () => $socket->join("a\nb"),
        fn () => $socket->join('room', user: ''),
        fn () => $socket->join('room', info: ['name' => 'Ann']),
        fn () => $socket->join('room', user: 'ann', info: [NAN]),
        fn () => $socket->join('room', format: 'json'),
    ] as $do) {
        try { $do(); } catch (Throwable $e) { $socket->send($e::class . ': ' . $e->getMessage()); }
    }
    $socket->close();
});
PHP);
$client = $server->socket('/');
do {
    echo $told = $client->receive(), "\n";
} while (!str_starts_with($told, 'close'));
?>
--EXPECT--
text: Fermata\Exception\MisuseError: channel name "": it is empty; use 1 to 255 bytes of printable text
text: Fermata\Exception\MisuseError: channel name "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": it has more than 255 bytes; use 1 to 255 bytes of printable text
text: Fermata\Exception\MisuseError: channel name "a\nb": it contains a control character; use 1 to 255 bytes of printable text
text: Fermata\Exception\MisuseError: a present user needs a name; pass null to join without being counted
text: Fermata\Exception\MisuseError: info describes who is present; give user: as well, or leave info out
text: JsonException: Inf and NaN cannot be JSON encoded
text: TypeError: Fermata\WebSocket::join(): Argument #6 ($format) must be of type Fermata\WebSocket\Format, string given
close: 1000
