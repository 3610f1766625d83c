--TEST--
A handler that throws or exits: 1011 to that client, the log tells why, others live
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', open: fn (WebSocket $socket) => $socket->data() === 'open' && throw new RuntimeException('in open'),
    message: fn (WebSocket $socket, Message $message) => match ((string) $message) {
        'throw' => throw new RuntimeException('secret', 0, new LogicException('why')),
        'exit' => exit(2),
        'fiber' => (new Fiber(fn () => exit()))->start(),
        'type' => (function (int $n) {})('x'),
        'after' => [$socket->send('sent before'), throw new RuntimeException('after send')],
        'bad' => throw new Fermata\Exception\BadRequestException('no such command'),
        'json' => $message->json(),
        'gone' => [$socket->close(), $socket->send('more')],
        default => $socket->send($message),
    },
    close: fn (WebSocket $socket, int $code, string $reason) => $socket->data() === 'close' ? throw new RuntimeException('in close') : print("closed $code " . json_encode($reason) . "\n"),
    upgrade: fn (Upgrade $upgrade) => $upgrade->setData($upgrade->request()->query('fail')));
PHP);
$other = $server->socket('/');
echo $other->ask('I stay'), "\n";
foreach (['throw', 'exit', 'fiber', 'type', 'after', 'bad', 'json', 'gone'] as $how) {
    $client = $server->socket('/');
    echo "$how: ", $client->ask($how);
    $client->close();
    echo ' ', $client->receive(), "\n";
}
$client = $server->socket('/?fail=open');
echo 'open: ', $client->receive(), "\n";
$client->close();
echo 'close: ', $server->socket('/?fail=close')->leave(), "\n";
echo $other->ask('I stayed'), "\n";
$server->wait('/in close/');
foreach (explode("\n", $server->logged('/WebSocket handler|BadRequest/')) as $line) {
    echo preg_replace('/^.*?(WebSocket handler|Fermata)/', '$1', $line), "\n";
}
echo $other->leave(), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECTF--
text: I stay
throw: close: 1011 ended
exit: close: 1011 ended
fiber: close: 1011 ended
type: close: 1011 ended
after: text: sent before close: 1011
bad: close: 1007 no such command ended
json: close: 1007 the message is not valid JSON ended
gone: close: 1000 ended
open: close: 1011
close: close: 1000
text: I stayed
WebSocket handler: RuntimeException: secret, caused by LogicException: why in server.php:3 in server.php:3
WebSocket handler: exit() called in handler; call close() to end a connection in server.php:2
WebSocket handler: exit() called in handler; call close() to end a connection in server.php:2
WebSocket handler: TypeError: %s: Argument #1 ($n) must be of type int, string given, called in server.php on line 6 in server.php:6
WebSocket handler: RuntimeException: after send in server.php:7
Fermata\Exception\BadRequestException: no such command in server.php:8
Fermata\Exception\BadRequestException: the message is not valid JSON, caused by JsonException: Syntax error in server.php:9 in server.php:9
WebSocket handler: RuntimeException: in open in server.php:1
WebSocket handler: RuntimeException: in close in server.php:13
close: 1000
int(0)
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
closed 1000 ""
