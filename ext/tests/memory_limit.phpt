--TEST--
The memory limit in a handler: 500, one log line, a fresh worker
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
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/once', function () { return Response::text((string) strlen(str_repeat('x', 1 << 30))); });
$server->get('/slowly', function () { $a = []; for (;;) { $a[] = str_repeat('x', 10000); } });
PHP, ini: ['-dmemory_limit=16M']);
foreach (['/once', '/slowly'] as $target) {
    $pid = $server->get('/')->body;
    echo $server->get($target)->status, "\n";
    $deadline = microtime(true) + WAIT_S;
    do {
        try {
            $body = $server->get('/')->body;
        } catch (Exception) {
            $body = '';
        }
    } while ((int) $body === 0 && microtime(true) < $deadline);
    var_dump((int) $body > 0 && $body !== $pid);
}
foreach (explode("\n", $server->logged('/Allowed memory size/')) as $line) {
    echo strstr($line, 'Allowed'), "\n";
}
var_dump($server->output());
?>
--EXPECTF--
500
bool(true)
500
bool(true)
Allowed memory size of 16777216 bytes exhausted%S (tried to allocate %d bytes) in server.php:2
Allowed memory size of 16777216 bytes exhausted%S (tried to allocate %d bytes) in server.php:3
string(0) ""
