--TEST--
timeout() and shield() in Fibers of the program's: they are around what the Fiber does, and not around its handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
$kept = null;
$cases = [
    'inside' => function () { $f = new Fiber(fn () => shown(fn () => timeout(0.01, fn () => delay(60)))); $f->start(); return $f->getReturn(); },
    'around' => fn () => timeout(0.01, fn () => (new Fiber(fn () => delay(60)))->start()),
    'both' => fn () => timeout(0.01, fn () => (new Fiber(fn () => timeout(60, fn () => delay(60))))->start()),
    'nested' => fn () => timeout(0.01, fn () => (new Fiber(fn () => (new Fiber(fn () => delay(60)))->start()))->start()),
    'shielded' => function () { $f = new Fiber(fn () => shield(fn () => delay(0.03) ?? 'done')); timeout(0.01, fn () => $f->start()); return $f->getReturn(); },
    'in time' => function () { $f = new Fiber(fn () => timeout(60, function () { $x = Fiber::suspend('a'); delay(0.001); return $x; }));
        $first = $f->start(); delay(0.001); $f->resume('b'); return $first . $f->getReturn(); },
    'handler goes on' => function () { $f = new Fiber(fn () => shown(fn () => timeout(0.01, function () { Fiber::suspend(); delay(60); })));
        $f->start(); $seen = shown(fn () => delay(0.03)); $f->resume(); return [$seen, $f->getReturn()]; },
    'handler times out' => function () { $f = new Fiber(fn () => shield(fn () => Fiber::suspend())); $f->start(); $seen = shown(fn () => timeout(0.01, fn () => delay(60))); $f->resume(); return $seen; },
    'shield that is suspended' => fn () => timeout(0.01, function () { $f = new Fiber(fn () => shield(fn () => Fiber::suspend())); $f->start(); delay(60); }),
    'dropped' => function () { $f = new Fiber(function () { try { timeout(0.01, fn () => Fiber::suspend()); } finally { echo "dropped\n"; } }); $f->start(); unset($f); delay(0.03); return 'alive'; },
    'left' => function () use (&$kept) { $kept = new Fiber(function () { try { return timeout(0.01, function () { Fiber::suspend(); delay(0.03); return 'waited'; }); } finally { echo "left\n"; } });
        $kept->start(); return 'suspended'; },
    'after another' => fn () => delay(0.03),
    'resumed by another' => function () use (&$kept) { $seen = shown(fn () => timeout(60, fn () => $kept->resume())); delay(0.001); return [$seen, $kept->getReturn()]; },
    'while it waits' => function () use (&$kept) {
        $kept = new Fiber(fn () => timeout(0.01, function () { Fiber::suspend(); delay(0.05); return 'waited'; })); $kept->start();
        $f = async(fn () => $kept->resume()); $seen = shown(fn () => delay(0.03)); await($f); return [$seen, $kept->getReturn()]; },
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
// So many concurrent handlers that the pool grows and then shrinks, which frees the fiber on which the kept Fiber was started.
$server->get('/many/left', function () { delay(0.01); $seen = $GLOBALS['cases']['left'](); delay(0.02); return Response::text($seen); });
$server->get('/many/more', function () { delay(0.03); return Response::accepted(); });
PHP, ini: ['-dfermata.fibers_idle_max=1']);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
$others = array_map(fn () => $server->connect(), range(1, 4));
foreach ($others as $connection) {
    $connection->start('GET', '/many/more');
}
echo $server->get('/many/left'), "\n";
foreach ($others as $connection) {
    $connection->answer();
}
echo $server->get('/resumed%20by%20another')->body, "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
inside: "Fermata\\Exception\\TimeoutException: the time given to timeout() is over"
around: Fermata\Exception\TimeoutException: the time given to timeout() is over
both: Fermata\Exception\TimeoutException: the time given to timeout() is over
nested: Fermata\Exception\TimeoutException: the time given to timeout() is over
shielded: "done"
in time: "ab"
handler goes on: ["null","Fermata\\Exception\\TimeoutException: the time given to timeout() is over"]
handler times out: "Fermata\\Exception\\TimeoutException: the time given to timeout() is over"
shield that is suspended: Fermata\Exception\TimeoutException: the time given to timeout() is over
dropped: "alive"
left: "suspended"
after another: null
resumed by another: ["null","waited"]
while it waits: ["null","waited"]
200 suspended
["null","waited"]
int(0)
dropped
left
left
