--TEST--
A handler object: what it overrides is called, in order, with one object per worker
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
class Base extends WebSocketHandler {
    public function open(WebSocket $socket): void { parent::open($socket); $socket->send('open'); }
}
$handler = new class extends Base {
    public array $ended = [];
    private int $count = 0;
    public function message(WebSocket $socket, Message $message): void { $socket->send(++$this->count . " $message"); }
    public function close(WebSocket $socket, int $code, string $reason): void { $this->ended[] = [$code, $reason, $socket->isOpen()]; }
};
$server->websocket('/ws', $handler);
$server->websocket('/silent', new class extends WebSocketHandler {});
$server->get('/ended', fn () => Response::json($handler->ended));
PHP);
$first = $server->socket('/ws');
$second = $server->socket('/ws');
echo $first->receive(), "\n", $second->receive(), "\n", $first->ask('a'), "\n", $second->ask('b'), "\n", $first->ask('c'), "\n";
echo $first->leave(4001, 'done'), "\n";
$second->cut();
$third = $server->socket('/ws');
echo $third->receive(), "\n", $third->ask('', Opcode::Close), "\n";
$server->wait('/./');
$deadline = microtime(true) + WAIT_S;
while (count(json_decode($body = $server->get('/ended')->body)) < 3 && microtime(true) < $deadline);
echo $body, "\n";
$silent = $server->socket('/silent');
echo $silent->ask('anybody?', Opcode::Ping), ' ', $silent->leave(), "\n";
var_dump($server->stop());
?>
--EXPECT--
text: open
text: open
text: 1 a
text: 2 b
text: 3 c
close: 4001
text: open
close:
[[4001,"done",false],[1006,"",false],[1005,"",false]]
pong: anybody? close: 1000
int(0)
