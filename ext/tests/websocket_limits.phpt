--TEST--
The memory and the time limit in a message handler: 1011, a fresh worker
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip the limit is the Zend allocator\'s');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    match ((string) $message) {
        'memory' => str_repeat('x', 1 << 30),
        'time' => (function () { set_time_limit(1); for (;;) {} })(),
        default => $socket->send($message . ini_get('max_execution_time')),
    };
});
PHP, ini: ['-dmemory_limit=16M']);
foreach (['memory', 'time'] as $how) {
    $client = $server->socket('/');
    echo $client->ask('limit '), "\n", $client->ask($how), "\n";
    $client->close();
    $deadline = microtime(true) + WAIT_S;
    do {
        try {
            $told = $server->socket('/')->ask('again ');
        } catch (Exception) {
            $told = '';
        }
    } while ($told !== 'text: again 0' && microtime(true) < $deadline);
    echo $told, "\n";
}
foreach (explode("\n", $server->logged('/WebSocket handler/')) as $line) {
    echo preg_replace(['/^.*WebSocket handler/', '/\(.*\) in/'], ['WebSocket handler', 'in'], $line), "\n";
}
?>
--EXPECT--
text: limit 0
close: 1011
text: again 0
text: limit 0
close: 1011
text: again 0
WebSocket handler: Allowed memory size of 16777216 bytes exhausted in server.php:3
WebSocket handler: Maximum execution time of 1 second exceeded in server.php:4
