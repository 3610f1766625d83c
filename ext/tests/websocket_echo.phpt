--TEST--
A WebSocket route with one callable echoes texts and binaries as they are
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/echo', message: fn (WebSocket $socket, Message $message) => $socket->send($message));
PHP);
$client = $server->socket('/echo');
echo $client->answer->status, ' ', $client->answer->header('sec-websocket-accept'), "\n";
echo $client->ask('Hello'), "\n", $client->ask(''), "\n", $client->ask('Grüße'), "\n";
echo $client->ask("\x00\xff", Opcode::Binary), "\n", $client->ask('', Opcode::Binary), "\n";
echo strlen($client->ask(str_repeat('x', 70000))), "\n";
echo $client->ask('are you there?', Opcode::Ping), "\n";
echo $client->leave(CloseCode::GoingAway, 'page closed'), "\n", $client->receive(), "\n";
var_dump($server->stop());
?>
--EXPECT--
101 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=
text: Hello
text: 
text: Grüße
binary: 00ff
binary: 
70006
pong: are you there?
close: 1001
ended
int(0)
