--TEST--
Memory stays flat over 100,000 awaits, and over handlers that wait and fail
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
$server->get('/awaits', function () {
    $one = fn () => 1;
    for ($i = 0; $i < 3; $i++) { await(async($one)); delay(0); timeout(60, fn () => race(fn () => delay(60), fn () => 1)); delay(0); }
    $before = memory_get_usage();
    for ($i = 0; $i < 100000; $i++) { await(async($one)); }
    for ($i = 0; $i < 100000; $i++) { delay(0); }
    for ($i = 0; $i < 1000; $i++) { timeout(60, fn () => race(fn () => delay(60), fn () => 1)); }
    delay(0);
    $grown = memory_get_usage() - $before;
    return Response::text($grown <= 1024 ? 'flat' : "grew by $grown");
});
$server->get('/memory', function () { gc_collect_cycles(); return Response::text((string) memory_get_usage()); });
$server->get('/wait', function (Request $r) { static $kept; $kept = $r; Context::set('a', $r); delay(0); return Response::text('x'); });
$server->get('/throw', function () { delay(0); throw new Exception('x'); });
$server->get('/exit', function () { delay(0); exit; });
$server->get('/task', function () { $f = async(fn () => delay(0.001)); $f->cancel(); async(fn () => delay(0)); all(fn () => delay(0), fn () => throw new Exception('x')); });
PHP);
echo $server->get('/awaits'), "\n";
$connection = $server->connect();
$round = function () use ($connection) {
    foreach (['/wait', '/throw', '/exit', '/task'] as $target) {
        $connection->request('GET', $target);
    }
};
for ($i = 0; $i < 100; $i++) $round();
$before = (int) $connection->request('GET', '/memory')->body;
for ($i = 0; $i < 1000; $i++) $round();
$after = (int) $connection->request('GET', '/memory')->body;
echo $after - $before <= 256 ? 'flat' : "grew from $before to $after", "\n";
?>
--EXPECT--
200 flat
flat
