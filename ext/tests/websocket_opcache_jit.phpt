--TEST--
WebSocket handlers under opcache and its JIT
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip memcheck and machine code made at run time do not mix');
require __DIR__ . '/jit.inc';
if (!JIT_WORKS) die("skip this PHP's JIT crashes, without the extension, too");
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$opcache = PHP_VERSION_ID < 80500 ? ['-dzend_extension=opcache'] : [];
$server = new TestServer(<<<'PHP'
$server->websocket('/', new class extends WebSocketHandler {
    public function open(WebSocket $socket): void { $socket->setData(0); }
    public function message(WebSocket $socket, Message $message): void {
        $socket->setData($socket->data() + strlen($message->data()));
        match ($message->data()) { 'throw' => throw new Exception, 'exit' => exit, 'sum' => $socket->send((string) $socket->data()), default => $socket->send($message) };
    }
});
PHP, ini: [...$opcache, '-dopcache.enable_cli=1', '-dopcache.jit=tracing', '-dopcache.jit_buffer_size=32M', '-dopcache.jit_hot_func=2', '-dopcache.jit_hot_loop=2']);
$client = $server->socket('/');
for ($i = 0; $i < 500; $i++) {
    if (($told = $client->ask("message $i")) !== "text: message $i") {
        echo "$told\n";
        break;
    }
    if ($i % 25 === 0) {
        $one = $server->socket('/');
        echo $i % 50 === 0 ? $one->ask('throw') : $one->ask('exit'), ' ';
        $one->close();
    }
}
echo "\n", $client->ask('sum'), "\n", $client->leave(), "\n";
var_dump($server->stop());
?>
--EXPECT--
close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 close: 1011 
text: 5393
close: 1000
int(0)
