--TEST--
Workers have a memory limit where PHP has none: endless recursion costs its client the answer, and the worker is replaced
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip the limit is the Zend allocator\'s');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
function deeper(int $n) { return deeper($n + 1) + 1; }
$server->get('/limit', fn () => Response::text(ini_get('memory_limit')));
$server->get('/recurse', fn () => Response::text((string) deeper(0)));
PHP;
$server = new TestServer($code, 'workers: 1', ['-dmemory_limit=-1', '-dfermata.worker_memory_bytes_max=33554432']);
echo $server->get('/limit'), "\n";
$server->wait('/memory_limit is -1 here: each worker gets 33554432 bytes/');
echo $server->get('/recurse')->status, "\n";
$server->wait('/Allowed memory size of 33554432 bytes exhausted/');
echo $server->get('/limit'), "\n";
unset($server);
foreach (['-dmemory_limit=64M', '-dfermata.worker_memory_bytes_max=0'] as $other) {
    $server = new TestServer($code, 'workers: 1', ['-dmemory_limit=-1', $other]);
    echo $server->get('/limit'), "\n";
    unset($server);
}
?>
--EXPECT--
200 33554432
500
200 33554432
200 64M
200 -1
