--TEST--
The memory limit in a handler that has waited, while others wait: 500, 503 for the others, a fresh worker
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
$server->get('/once', function () { delay(0.02); return Response::text((string) strlen(str_repeat('x', 1 << 30))); });
$server->get('/slowly', function () { $a = []; for (;;) { delay(0); $a[] = str_repeat('x', 10000); } });
$server->get('/tasks', function () { all(...array_fill(0, 5000, fn () => delay(60))); });
$server->get('/wait', function () { delay(60); });
PHP, ini: ['-dmemory_limit=16M']);
foreach (['/once', '/slowly', '/tasks'] as $target) {
    $pid = $server->get('/')->body;
    $waiting = $server->connect();
    $waiting->start('GET', '/wait');
    echo $target, ' ', $server->get($target)->status, ' ', $waiting->answer()->status, "\n";
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
var_dump(substr_count($server->log(), 'Allowed memory size'), $server->stop(), $server->output());
?>
--EXPECTF--
/once 500 503
bool(true)
/slowly 500 503
bool(true)
/tasks 5%d 503
bool(true)
int(3)
int(0)
string(0) ""
