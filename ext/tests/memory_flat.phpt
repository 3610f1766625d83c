--TEST--
Memory stays flat over many requests, failing ones included
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
$server->get('/memory', function () { gc_collect_cycles(); return Response::text((string) memory_get_usage()); });
$server->post('/work/{id}', function (Request $r) {
    static $kept;
    $kept = $r;
    $r->queries(); $r->headers(); $r->cookies(); $r->forms(); $r->route('id');
    return Response::json($r->json())->withHeader('A', 'b')->withCookie('c', 'd')->withAddedHeader('A', 'c');
});
$server->get('/throw', fn () => throw new Exception('x', 0, new Exception('y')));
$server->get('/exit', function () { exit; });
$server->get('/fiber', function () { $f = new Fiber(fn () => Fiber::suspend()); $f->start(); return Response::accepted(); });
$server->get('/wrong', fn () => [1, 2, str_repeat('x', 1000)]);
$server->get('/hold', fn () => Hold::sse('', 'b'));
PHP);
$connection = $server->connect();
$round = function () use ($connection) {
    $connection->request('POST', '/work/5?a[]=1&b=2', ['Cookie' => 'a=b'], '{"x":[1,2,3]}');
    foreach (['/throw', '/exit', '/fiber', '/wrong', '/hold'] as $target) {
        $connection->request('GET', $target);
    }
};
for ($i = 0; $i < 200; $i++) $round();
$before = (int) $connection->request('GET', '/memory')->body;
for ($i = 0; $i < 1000; $i++) $round();
$after = (int) $connection->request('GET', '/memory')->body;
echo $after - $before <= 256 ? 'flat' : "grew from $before to $after", "\n";
?>
--EXPECT--
flat
