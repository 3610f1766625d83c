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
