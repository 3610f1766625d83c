--TEST--
Handlers that wait under opcache and both kinds of JIT
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
foreach (['tracing', 'function'] as $jit) {
    $server = new TestServer(<<<'PHP'
    $server->get('/sum/{n}', function (Request $r) {
        $sum = 0;
        for ($i = 0; $i < (int) $r->route('n'); $i++) { $sum += $i % 7; if ($i % 10 === 0) { delay(0); } }
        return Response::json(['sum' => $sum]);
    });
    $server->get('/tasks', function () {
        $square = function (int $n) { $x = 0; for ($i = 0; $i < $n; $i++) { $x += $n; if ($i % 5 === 0) { delay($i % 2 / 1000); } } return $x; };
        return Response::json(array_sum(all(...array_map(fn ($n) => fn () => $square($n), range(1, 20)))));
    });
    $server->get('/throw', function () { delay(0); throw new Exception('thrown'); });
    $server->get('/exit', function () { delay(0.001); exit; });
    PHP, ini: [...$opcache, '-dopcache.enable_cli=1', "-dopcache.jit=$jit", '-dopcache.jit_buffer_size=32M', '-dopcache.jit_hot_func=2', '-dopcache.jit_hot_loop=2']);
    $connections = array_map(fn () => $server->connect(), range(1, 5));
    for ($i = 0; $i < 60; $i++) {
        foreach (['/sum/50', '/tasks', '/throw', '/exit', '/sum/50'] as $at => $target) {
            $connections[$at]->start('GET', $target);
        }
        $answers = array_map(fn ($connection) => (string) $connection->answer(), $connections);
        if ([$answers[0], $answers[1], substr($answers[2], 0, 3), substr($answers[3], 0, 3), $answers[4]] !== ['200 {"sum":147}', '200 2870', '500', '500', '200 {"sum":147}']) {
            echo "$jit $i: ", json_encode($answers), "\n";
            break;
        }
    }
    var_dump($server->stop());
}
?>
--EXPECT--
int(0)
int(0)
