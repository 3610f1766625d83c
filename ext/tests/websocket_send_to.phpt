--TEST--
sendTo() reaches a connection of any worker by its id
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', open: fn (WebSocket $socket) => $socket->send(getmypid() . ' ' . $socket->id()));
$server->post('/to/{id}', function (Request $r) {
    try {
        WebSocket::sendTo($r->route('id'), $r->body(), $r->query('binary') !== null);
        return Response::text((string) getmypid());
    } catch (Throwable $e) {
        return Response::text($e::class . ': ' . $e->getMessage());
    }
});
PHP, 'workers: 2');
$clients = [];
for ($i = 0; $i < 100 && count($clients) < 2; $i++) {
    $client = $server->socket('/');
    [$pid, $id] = sscanf($client->receive(), 'text: %d %s');
    $clients[$pid] ??= [$client, $id];
}
$senders = [];
for ($i = 0; $i < 100 && count($senders) < 2; $i++) {
    $connection = $server->connect();
    $senders[$connection->request('POST', '/to/none')->body] ??= $connection;
}
?>
--EXPECT--
