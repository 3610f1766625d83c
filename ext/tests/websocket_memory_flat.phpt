--TEST--
Memory stays flat over 100,000 messages, and over connections that come, fail and go
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip counts the Zend allocator\'s bytes; memcheck looks for leaks itself');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$kept = null;
$server->websocket('/', open: fn (WebSocket $socket) => $socket->setData(['some' => $socket->id()]), message: function (WebSocket $socket, Message $message) use (&$kept) {
    if ($message->data() === 'memory') { gc_collect_cycles(); $socket->send((string) memory_get_usage()); return; }
    if ($message->data()[0] === 'k') { $kept = [$socket, $message]; }
    if ($message->data()[0] === 't') { throw new Exception($message->data()); }
    if ($message->data()[0] === 'e') { exit; }
    $socket->send($message);
}, close: fn (WebSocket $socket, int $code, string $reason) => null, upgrade: fn (Upgrade $upgrade) => $upgrade->setData($upgrade->request()));
PHP);
$client = $server->socket('/');
$messages = function (int $count) use ($client) {
    $batch = 100;
    for ($sent = 0; $sent < $count; $sent += $batch) {
        for ($i = 0; $i < $batch; $i++) $client->send(($i % 10 === 0 ? 'k' : 'm') . $i);
        for ($i = 0; $i < $batch; $i++) $client->receive();
    }
};
$connections = function (int $count) use ($server) {
    for ($i = 0; $i < $count; $i++) {
        $one = $server->socket('/');
        $one->ask(['k', 't', 'e'][$i % 3] . $i);
        $one->close();
        $one->receive();
    }
};
$messages(1000);
$connections(30);
$before = (int) substr($client->ask('memory'), 6);
$messages(100_000);
$connections(150);
$after = (int) substr($client->ask('memory'), 6);
echo $after - $before <= 256 ? 'flat' : "grew from $before to $after", "\n";
?>
--EXPECT--
flat
