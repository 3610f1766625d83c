--TEST--
send(), sendBinary() and trySend(): kinds of data, and what they refuse
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
class Text implements Stringable { public function __construct(private string $text) {} public function __toString(): string { return $this->text ?: throw new LogicException('no text'); } }
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    $try = function (callable $do) use ($socket) { try { $do(); } catch (Throwable $e) { $socket->send($e::class . ': ' . $e->getMessage()); } };
    $socket->send('text');
    $socket->send('');
    $socket->send(new Text('stringable'));
    $socket->sendBinary("\xff");
    var_dump($socket->trySend('tried'), $socket->trySend("\xfe", binary: true), $socket->trySend($message), $socket->trySend(new Text('x'), true));
    $try(fn () => $socket->send("\xff"));
    $try(fn () => $socket->trySend("\xff"));
    $try(fn () => $socket->send(new Text('')));
    $try(fn () => $socket->send([]));
    $try(fn () => $socket->send(new stdClass));
    $try(fn () => $socket->send());
    $socket->send(5);
    $socket->close();
});
PHP);
$client = $server->socket('/');
$client->send("\x01\x02", Opcode::Binary);
do {
    echo $told = $client->receive(), "\n";
} while (!str_starts_with($told, 'close'));
echo $server->output();
?>
--EXPECT--
text: text
text: 
text: stringable
binary: ff
text: tried
binary: fe
binary: 0102
binary: 78
text: Fermata\Exception\MisuseError: the message is not valid UTF-8, which text messages are by definition; send it as binary
text: Fermata\Exception\MisuseError: the message is not valid UTF-8, which text messages are by definition; send it as binary
text: LogicException: no text
text: TypeError: Fermata\WebSocket::send(): Argument #1 ($data) must be of type Stringable|string, array given
text: TypeError: Fermata\WebSocket::send(): Argument #1 ($data) must be of type Stringable|string, stdClass given
text: ArgumentCountError: Fermata\WebSocket::send() expects exactly 1 argument, 0 given
text: 5
close: 1000
bool(true)
bool(true)
bool(true)
bool(true)
