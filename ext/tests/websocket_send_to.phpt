--TEST--
sendTo() reaches a connection of any worker by its id
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', open: fn (WebSocket $socket) => $socket->send(getmypid() . ' ' . $socket->id()));
$server->get('/pid', fn () => Response::text((string) getmypid()));
$server->post('/to', function (Request $r) {
    try {
        WebSocket::sendTo($r->query('id'), $r->body(), $r->query('binary') !== null);
        return Response::text('sent');
    } catch (Throwable $e) {
        return Response::text($e::class . ': ' . $e->getMessage());
    }
});
PHP, 'workers: 2');
$clients = $senders = [];
for ($i = 0; $i < 200 && count($clients) < 2; $i++) {
    $client = $server->socket('/');
    [$pid, $id] = sscanf($client->receive(), 'text: %d %s');
    $clients[$pid] ??= [$client, $id];
}
for ($i = 0; $i < 200 && count($senders) < 2; $i++) {
    $connection = $server->connect();
    $senders[$connection->request('GET', '/pid')->body] ??= $connection;
}
echo count($clients), ' ', count($senders), ' ', count(array_unique(array_column($clients, 1))), "\n";
foreach ($senders as $sender) {
    foreach ($clients as [$client, $id]) {
        $to = '/to?id=' . urlencode($id);
        echo $sender->request('POST', $to, [], 'Grüße'), ', ', $client->receive(), "\n";
        echo $sender->request('POST', "$to&binary", [], "\xff"), ', ', $client->receive(), "\n";
    }
}
[$client, $id] = array_pop($clients);
$to = '/to?id=' . urlencode($id);
echo $sender->request('POST', $to, [], "\xff"), "\n";
echo $sender->request('POST', $to, [], str_repeat('x', 100_000)), "\n";
echo $sender->request('POST', '/to?id=nonsense', [], 'x'), "\n";
// Workers use this key for internal messages.
foreach ([substr($id, 0, 16), str_repeat('0', 16)] as $worker) {
    $forged = $worker . str_repeat('f', 16) . substr($id, 32);
    echo str_replace($forged, 'FORGED', $sender->request('POST', "/to?id=$forged", [], 'x')), "\n";
}
echo $client->leave(), "\n";
echo $sender->request('POST', $to, [], 'too late'), "\n";
?>
--EXPECT--
2 2 2
200 sent, text: Grüße
200 sent, binary: ff
200 sent, text: Grüße
200 sent, binary: ff
200 sent, text: Grüße
200 sent, binary: ff
200 sent, text: Grüße
200 sent, binary: ff
200 Fermata\Exception\MisuseError: the message is not valid UTF-8, which text messages are by definition; send it as binary
200 Fermata\Exception\MisuseError: the message has 100000 bytes, but between workers at most 65536 are allowed (event_bytes_max)
200 Fermata\Exception\MisuseError: "nonsense" is not a socket id; use the result of WebSocket::id()
200 Fermata\Exception\MisuseError: "FORGED" is not a socket id; use the result of WebSocket::id()
200 Fermata\Exception\MisuseError: "FORGED" is not a socket id; use the result of WebSocket::id()
close: 1000
200 sent
