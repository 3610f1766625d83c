--TEST--
A server that stops says 1001 to every client, and close() runs
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', open: fn (WebSocket $socket) => $socket->setData(new class { public function __destruct() { echo "released\n"; } }),
    message: fn (WebSocket $socket, Message $message) => $socket->send($message),
    close: fn (WebSocket $socket, int $code, string $reason) => print("close $code " . json_encode($socket->isOpen()) . "\n"));
PHP);
$clients = [$server->socket('/'), $server->socket('/')];
foreach ($clients as $client) {
    echo $client->ask('hi'), "\n";
}
$server->signal(15);
foreach ($clients as $client) {
    echo $client->receive(), "\n";
    $client->close(CloseCode::GoingAway);
    echo $client->receive(), "\n";
}
var_dump($server->ended());
echo $server->output();
?>
--EXPECT--
text: hi
text: hi
close: 1001
ended
close: 1001
ended
int(0)
close 1001 false
released
close 1001 false
released
