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
        default => $socket->send($message),
    },
    close: fn (WebSocket $socket, int $code, string $reason) => $socket->data() === 'close' ? throw new RuntimeException('in close') : print("closed $code $reason\n"),
    upgrade: fn (Upgrade $upgrade) => $upgrade->setData($upgrade->request()->query('fail')));
PHP);
$other = $server->socket('/');
echo $other->ask('I stay'), "\n";
foreach (['throw', 'exit', 'fiber', 'type', 'after', 'bad', 'json'] as $how) {
    $client = $server->socket('/');
    echo "$how: ", $client->ask($how), ' ', $client->receive(), "\n";
    $client->close();
}
echo 'open: ', $server->socket('/?fail=open')->receive(), "\n";
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
--EXPECT--
