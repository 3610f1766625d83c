--TEST--
Mutex, Semaphore and Queue: in order, handed over, free again after a failure
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
$cases = [
    'mutex' => function () { $m = new Mutex; $log = []; $one = function ($n) use ($m, &$log) { return function () use ($m, &$log, $n) { $m->lock(); $log[] = "in $n"; delay(0.002); $log[] = "out $n"; $m->unlock(); }; };
        all($one(1), $one(2), $one(3)); return [$log, $m->isLocked()]; },
    'synchronized' => function () { $m = new Mutex; $first = shown(fn () => $m->synchronized(fn () => throw new LogicException('inside'))); return [$first, $m->isLocked(), $m->synchronized(fn () => $m->tryLock()), $m->tryLock(), $m->tryLock()]; },
    'mutex in time' => function () { $m = new Mutex; $f = async(fn () => $m->synchronized(fn () => delay(0.05))); delay(0);
        $seen = shown(fn () => timeout(0.001, fn () => $m->lock())); await($f); $m->lock(); return $seen; },
    'semaphore' => function () { $s = new Semaphore(2); $now = $most = 0; $work = function () use ($s, &$now, &$most) { $s->run(function () use (&$now, &$most) { $most = max($most, ++$now); delay(0.001); $now--; }); };
        all(...array_fill(0, 7, $work)); return [$most, $s->tryAcquire(), $s->tryAcquire(), $s->tryAcquire()]; },
    'queue' => function () { $q = new Queue(2); $f = async(function () use ($q) { for ($i = 0; $i < 5; $i++) { $q->push($i); } $q->close(); return 'pushed'; });
        $got = []; try { for (;;) { $got[] = $q->pop(); } } catch (Fermata\Exception\QueueClosedException $e) { return [$got, $e->getMessage(), await($f), $q->isClosed(), shown(fn () => $q->push(1))]; } },
    'queue waits' => function () { $q = new Queue; $f = async(fn () => $q->pop()); delay(0); $q->push(['a' => 1]); return [count($q), await($f)]; },
    'queue closes' => function () { $q = new Queue; $f = async(fn () => shown(fn () => $q->pop())); $q->push('x'); delay(0); $g = async(fn () => shown(fn () => $q->pop())); delay(0); $q->close(); return [await($f), await($g)]; },
    'pushes end' => function () { $q = new Queue; $q->push(1); $f = async(fn () => shown(fn () => $q->push(new stdClass))); delay(0); $q->close(); return [await($f), $q->pop(), $q->tryPop('none')]; },
    'push in time' => function () { $q = new Queue; $q->push(1); $seen = shown(fn () => timeout(0.001, fn () => $q->push(2))); return [$seen, $q->pop(), count($q)]; },
    'foreach' => function () { $q = new Queue(2); $f = async(function () use ($q) { for ($i = 0; $i < 5; $i++) { delay(0); $q->push("v$i"); } $q->close(); });
        $got = []; foreach ($q as $n => $item) { $got[$n] = $item; } await($f); foreach ($q as $item) { $got[] = 'never'; } return $got; },
    'foreach by two' => function () { $q = new Queue(9); $got = [[], []]; $one = function ($me) use ($q, &$got) { return function () use ($q, &$got, $me) { foreach ($q as $item) { $got[$me][] = $item; } }; };
        $a = async($one(0)); $b = async($one(1)); delay(0); foreach ([1, 2, 3, 4] as $i) { $q->push($i); delay(0); } $q->close(); all($a, $b); return $got; },
    'foreach ends early' => function () { $q = new Queue(9); foreach ([1, 2, 3, 4] as $i) { $q->push($i); } foreach ($q as $item) { break; } return [$item, count($q), $q->getIterator()->current()]; },
    'iterator again' => function () { $q = new Queue(9); foreach ([1, 2, 3] as $i) { $q->push($i); } $q->close(); $it = $q->getIterator(); $got = []; foreach ($it as $item) { $got[] = $item; break; } foreach ($it as $n => $item) { $got[] = "$n: $item"; } return $got; },
    'foreach in time' => function () { $q = new Queue; return [shown(fn () => timeout(0.001, function () use ($q) { foreach ($q as $item); })), $q->tryPush(1), count($q)]; },
    'foreach by reference' => fn () => shown(function () { foreach (new Queue as &$item); }),
    'takers in order' => function () { $q = new Queue(9); $fs = array_map(fn ($n) => async(fn () => $n . $q->pop()), ['a', 'b', 'c']); delay(0); foreach ([1, 2, 3] as $i) { $q->push($i); } return all(...$fs); },
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
PHP);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
var_dump($server->stop());
?>
--EXPECT--
mutex: [["in 1","out 1","in 2","out 2","in 3","out 3"],false]
synchronized: ["LogicException: inside",false,false,true,false]
mutex in time: "Fermata\\Exception\\TimeoutException: the time given to timeout() is over"
semaphore: [2,true,true,false]
queue: [[0,1,2,3,4],"the queue is closed","pushed",true,"Fermata\\Exception\\QueueClosedException: the queue is closed"]
queue waits: [0,{"a":1}]
queue closes: ["\"x\"","Fermata\\Exception\\QueueClosedException: the queue is closed"]
pushes end: ["Fermata\\Exception\\QueueClosedException: the queue is closed",1,"none"]
push in time: ["Fermata\\Exception\\TimeoutException: the time given to timeout() is over",1,0]
foreach: ["v0","v1","v2","v3","v4"]
foreach by two: [[1,3],[2,4]]
foreach ends early: [1,3,2]
iterator again: [1,"0: 1","1: 2","2: 3"]
foreach in time: ["Fermata\\Exception\\TimeoutException: the time given to timeout() is over",true,1]
foreach by reference: "Fermata\\Exception\\MisuseError: foreach cannot take values of a queue by reference"
takers in order: ["a1","b2","c3"]
int(0)
