--TEST--
Tasks: async, await, all, race, timeout, shield, cancellation, context
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
function late(float $s, mixed $v): Closure { return function () use ($s, $v) { delay($s); if ($v instanceof Throwable) throw $v; return $v; }; }
$cases = [
    'async' => function () { $f = async(fn () => 7); $before = $f->isDone(); return [$before, await($f), $f->await(), $f->isDone()]; },
    'late' => fn () => await(async(late(0.01, 'late'))),
    'nested' => fn () => await(async(fn () => await(async(fn () => await(async(late(0.01, 'deep'))))))),
    'throws' => fn () => await(async(late(0.01, new LogicException('mine')))),
    'all' => fn () => all(late(0.03, 1), late(0.01, 2), async(fn () => 3), fn () => 4),
    'named' => fn () => all(a: late(0.02, 1), b: fn () => null),
    'nothing' => fn () => all(),
    'all fails' => function () use (&$log) { $log = [];
        try { all(late(0.01, new LogicException('one')), function () use (&$log) { try { delay(60); } catch (Throwable $e) { $log[] = $e->getMessage(); throw $e; } }); }
        finally { delay(0); echo json_encode($log), "\n"; } },
    'race' => fn () => race(late(60, 'slow'), late(0.01, 'quick')),
    'race fails' => fn () => race(late(60, 'slow'), late(0.01, new LogicException('first'))),
    'race of none' => fn () => race(),
    'race of none callable' => fn () => race(fn () => delay(60), 5),
    'timeout' => fn () => timeout(0.01, fn () => delay(60)),
    'timeout in time' => fn () => timeout(60, late(0.01, 'in time')),
    'timeouts' => function () { try { timeout(60, fn () => timeout(0.01, fn () => delay(60))); } catch (Fermata\Exception\TimeoutException) { return 'inner'; } },
    'outer timeout' => fn () => timeout(0.01, fn () => timeout(60, fn () => delay(60))),
    'timeout again' => function () { return timeout(0.01, function () { try { delay(60); } catch (Fermata\Exception\TimeoutException) { delay(0); } }); },
    'shield' => function () { timeout(0.01, fn () => shield(fn () => delay(0.05))); return 'done'; },
    'after shield' => fn () => timeout(0.01, function () { shield(fn () => delay(0.05)); delay(0); }),
    'cancel' => function () { $f = async(fn () => delay(60)); delay(0); $f->cancel(); $f->cancel(); return await($f); },
    'cancel early' => function () { $f = async(fn () => print("never\n")); $f->cancel(); return [$f->isDone(), shown(fn () => await($f))]; },
    'cancel late' => function () { $f = async(fn () => 5); await($f); $f->cancel(); return await($f); },
    'cancellation' => function () { $c = new Cancellation; async(function () use ($c) { delay(0.01); $c->cancel(); }); return [$c->isCancelled(), shown(fn () => $c->run(fn () => delay(60))), $c->isCancelled(), shown(fn () => $c->run(fn () => delay(0))), shown(fn () => delay(0))]; },
    'context' => function () { Context::set('a', 1); $f = async(function () { $seen = Context::get('a'); Context::set('a', 2); Context::set('b', 3); delay(0.01); return [$seen, Context::get('a'), Context::get('b')]; });
        Context::set('a', 5); return [await($f), Context::get('a'), Context::get('b', 'none')]; },
    'context is empty' => fn () => Context::get('a'),
    'exit' => fn () => await(async(function () { exit(3); })),
    'many' => function () { $sum = 0; foreach (all(...array_map(fn ($i) => fn () => delay($i % 3 / 1000) ?? $i, range(1, 500))) as $i) { $sum += $i; } return $sum; },
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
$server->get('/unseen/failure', function () { async(fn () => throw new DomainException('unseen')); delay(0.01); return Response::accepted(); });
$server->get('/trace/of', function () {
    function inner() { delay(0.001); throw new DomainException('traced'); }
    try { await(async(fn () => inner())); } catch (DomainException $e) { return Response::text(preg_match('/^#0.*inner\(\)/', $e->getTraceAsString()) . basename($e->getFile()) . ':' . ($e->getLine() > 10 ? 'line' : '?')); }
});
PHP);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
echo $server->get('/unseen/failure')->status, "\n", $server->get('/trace/of'), "\n";
$server->wait('/unseen/');
echo preg_replace('/^.*(a task)/', '$1', $server->logged('/unseen/')), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECTF--
async: [false,7,7,true]
late: "late"
nested: "deep"
throws: LogicException: mine
all: [1,2,3,4]
named: {"a":1,"b":null}
nothing: []
all fails: LogicException: one
race: "quick"
race fails: LogicException: first
race of none: Fermata\Exception\MisuseError: race() needs something to run; nothing was given
race of none callable: TypeError: each argument must be a callable or a Fermata\Future, int given
timeout: Fermata\Exception\TimeoutException: the time given to timeout() is over
timeout in time: "in time"
timeouts: "inner"
outer timeout: Fermata\Exception\TimeoutException: the time given to timeout() is over
timeout again: Fermata\Exception\TimeoutException: the time given to timeout() is over
shield: "done"
after shield: Fermata\Exception\TimeoutException: the time given to timeout() is over
cancel: Fermata\Exception\CancelledException: the task was cancelled
cancel early: [true,"Fermata\\Exception\\CancelledException: the task was cancelled before it began"]
cancel late: 5
cancellation: [false,"Fermata\\Exception\\CancelledException: the Cancellation was cancelled",true,"Fermata\\Exception\\CancelledException: the Cancellation was cancelled","null"]
context: [[1,2,3],5,"none"]
context is empty: null
exit: Fermata\Exception\MisuseError: exit() called in a task; return to end it
many: 125250
202
200 1server.php:line
a task failed and nobody awaited it: DomainException: unseen in server.php:%d
int(0)
["the task was cancelled"]
