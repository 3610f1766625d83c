--TEST--
WebSocket handlers that wait: messages of a socket keep their order, others go on, close comes last
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/ws', new class extends WebSocketHandler {
    public function upgrade(Upgrade $upgrade): void { delay(0.001); $upgrade->setData($upgrade->request()->query('name')); }
    public function open(WebSocket $socket): void { delay(0.001); $socket->send("open {$socket->data()}"); }
    public function message(WebSocket $socket, Message $message): void {
        [$text, $seconds] = explode(' ', $message->data()) + [1 => '0'];
        try { delay((float) $seconds); } catch (Throwable $e) { echo $e::class, "\n"; throw $e; } finally { echo "$text {$message->data()}\n"; }
        if ($text === 'throw') { throw new LogicException('thrown late'); }
        $socket->send("$text {$message->data()}");
    }
    public function close(WebSocket $socket, int $code, string $reason): void { delay(0.001); echo "close {$socket->data()} $code $reason\n"; }
});
PHP);
$a = $server->socket('/ws?name=a');
$b = $server->socket('/ws?name=b');
$a->send('early 0.01');
echo $a->receive(), "\n", $b->receive(), "\n", $a->receive(), "\n";
$a->send('first 0.3');
$a->send('second 0');
$a->send('third 0.01');
echo $b->ask('quick 0'), "\n";
echo $a->receive(), "\n", $a->receive(), "\n", $a->receive(), "\n";
$b->send('last 0.05');
echo $b->leave(1000, 'bye'), "\n", $b->receive(), "\n";
echo $a->ask('throw 0.01'), "\n";
$c = $server->socket('/ws?name=c');
echo $c->receive(), "\n";
$c->send('cut 60');
$deadline = microtime(true) + WAIT_S;
usleep(50000);
$c->cut();
while (!str_contains($server->output(), 'close c') && microtime(true) < $deadline) {
    usleep(1000);
}
var_dump($server->stop());
echo $server->output(), preg_replace('/^.*?(WebSocket)/m', '$1', $server->logged('/error/')), "\n";
?>
--EXPECT--
text: open a
text: open b
text: early early 0.01
text: quick quick 0
text: first first 0.3
text: second second 0
text: third third 0.01
text: last last 0.05
close: 1000
close: 1011
text: open c
int(0)
early early 0.01
quick quick 0
first first 0.3
second second 0
third third 0.01
last last 0.05
close b 1000 bye
throw throw 0.01
Fermata\Exception\ClientGoneException
cut cut 60
close c 1006 
close a 1006 
WebSocket handler: LogicException: thrown late in server.php:7
