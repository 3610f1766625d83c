--TEST--
A task may be cancelled at every one of its suspensions: no permit, lock or value is lost, nothing hangs, nothing leaks
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
/**
 * Each makes a world anew: the work that is cancelled, what has to be right when it has ended (the text says what is not),
 * and what runs beside it. A turn of the driver below is a turn of everybody, so it sees every state there is.
 */
function turns(int $n): void { while ($n--) { delay(0); } }
function drained(Queue $queue): array { $left = []; while (($item = $queue->tryPop()) !== null) { $left[] = $item; } return $left; }

$worlds = [
    'turns' => fn () => [function () { turns(3); return 'done'; }, fn () => ''],
    'delay' => fn () => [function () { delay(0); delay(60); }, fn () => '', [], 5],
    'pop in time' => fn () => [function () { $queue = new Queue; timeout(60, fn () => $queue->pop()); }, fn () => '', [], 5],
    'await' => function () {
        $inner = null; $ended = 0;
        return [function () use (&$inner, &$ended) { $inner = async(function () use (&$ended) { turns(3); $ended++; return 'done'; }); return await($inner); },
            // A task started by async() is not cancelled with the task that awaits it.
            function () use (&$inner, &$ended) { if ($inner) { await($inner); } return $inner && $ended !== 1 ? 'the inner task was ended' : ''; }];
    },
    'all' => function () {
        $open = 0;
        $one = function ($n) use (&$open) { return function () use (&$open, $n) { $open++; try { turns($n); } finally { $open--; } return $n; }; };
        return [fn () => all($one(1), $one(3), $one(2)) === [1, 3, 2] ? 'done' : 'wrong', function () use (&$open) { turns(2); return $open ? "$open of all() go on" : ''; }];
    },
    'all fails' => function () {
        $open = 0;
        $one = function ($n, $fails) use (&$open) { return function () use (&$open, $n, $fails) { $open++; try { turns($n); if ($fails) { throw new DomainException; } } finally { $open--; } }; };
        return [function () use ($one) { try { all($one(5, false), $one(2, true)); } catch (DomainException) { return 'done'; } },
            function () use (&$open) { turns(2); return $open ? "$open of all() go on" : ''; }];
    },
    'race' => function () {
        $open = 0;
        $one = function ($n) use (&$open) { return function () use (&$open, $n) { $open++; try { turns($n); } finally { $open--; } return $n; }; };
        return [fn () => race($one(4), $one(2), $one(6)) === 2 ? 'done' : 'wrong', function () use (&$open) { turns(2); return $open ? "$open of race() go on" : ''; }];
    },
    'mutex' => function () {
        $mutex = new Mutex; $inside = 0; $most = 0;
        $work = function () use ($mutex, &$inside, &$most) { $mutex->synchronized(function () use (&$inside, &$most) { $most = max($most, ++$inside); try { turns(2); } finally { $inside--; } }); return 'done'; };
        return [$work, function () use ($mutex, &$most) { return $most !== 1 ? "$most were inside" : ($mutex->isLocked() ? 'still locked' : ''); }, [$work, $work, $work]];
    },
    'lock' => function () {
        $mutex = new Mutex;
        $work = function () use ($mutex) { $mutex->lock(); try { turns(1); } finally { $mutex->unlock(); } return 'done'; };
        return [$work, fn () => $mutex->isLocked() ? 'still locked' : '', [$work, $work]];
    },
    'semaphore' => function () {
        $semaphore = new Semaphore(2);
        $work = function () use ($semaphore) { $semaphore->run(fn () => turns(2)); return 'done'; };
        return [$work, function () use ($semaphore) { for ($n = 0; $semaphore->tryAcquire(); $n++); return $n === 2 ? '' : "$n permits of 2"; }, [$work, $work, $work, $work]];
    },
    'pop' => function () {
        $queue = new Queue(9); $got = [];
        return [function () use ($queue, &$got) { for ($i = 0; $i < 4; $i++) { $got[] = $queue->pop(); } return 'done'; },
            function () use ($queue, &$got) { $all = [...$got, ...drained($queue)]; return $all === [1, 2, 3, 4] ? '' : 'values ' . json_encode($all); },
            [function () use ($queue) { foreach ([1, 2, 3, 4] as $i) { turns(2); $queue->push($i); } }]];
    },
    'push' => function () {
        $queue = new Queue(2); $pushed = []; $got = [];
        return [function () use ($queue, &$pushed) { foreach ([1, 2, 3, 4, 5] as $i) { $queue->push($i); $pushed[] = $i; } return 'done'; },
            function () use ($queue, &$pushed, &$got) { $all = [...$got, ...drained($queue)]; return $all === $pushed ? '' : json_encode(['pushed' => $pushed, 'got' => $all]); },
            [function () use ($queue, &$got) { for ($n = 0; $n < 40; $n++) { turns(2); if (($item = $queue->tryPop()) !== null) { $got[] = $item; } } }]];
    },
    'foreach' => function () {
        $queue = new Queue(9); $got = [];
        return [function () use ($queue, &$got) { foreach ($queue as $item) { $got[] = $item; delay(0); } return 'done'; },
            function () use ($queue, &$got) { foreach ($queue as $item) { $got[] = $item; } return $got === [1, 2, 3] ? '' : 'values ' . json_encode($got); },
            [function () use ($queue) { foreach ([1, 2, 3] as $i) { turns(2); $queue->push($i); } $queue->close(); }]];
    },
    'shield' => function () {
        $steps = 0; $began = false;
        return [function () use (&$steps, &$began) { $began = true; shield(function () use (&$steps) { for (; $steps < 3; $steps++) { delay(0); } }); delay(0); return 'done'; },
            function () use (&$steps, &$began) { return $began && $steps !== 3 ? "the shield let it end after $steps" : ''; }];
    },
    'timeout' => fn () => [function () { timeout(60, function () { timeout(60, fn () => turns(2)); turns(1); }); turns(1); return 'done'; }, fn () => ''],
    'in a Fiber' => function () {
        $finally = 0; $began = 0;
        return [function () use (&$finally, &$began) { $began++; $fiber = new Fiber(function () use (&$finally) { try { turns(2); Fiber::suspend(); turns(1); } finally { $finally++; } }); try { $fiber->start(); $fiber->resume(); } finally { unset($fiber); } return 'done'; },
            function () use (&$finally, &$began) { return $finally === $began ? '' : "finally $finally times of $began"; }];
    },
    'a semaphore in all' => function () {
        $semaphore = new Semaphore(1);
        $one = fn () => $semaphore->run(fn () => turns(1));
        return [function () use ($one) { all($one, $one, $one); return 'done'; }, function () use ($semaphore) { turns(2); return $semaphore->tryAcquire() ? '' : 'no permit'; }, [$one]];
    },
];

/** Ways to cancel. */
$ways = [
    'task' => fn ($work) => [$task = async($work), fn () => $task->cancel()],
    'cancellation' => function ($work) { $cancellation = new Cancellation; return [async(fn () => $cancellation->run($work)), fn () => $cancellation->cancel()]; },
    'outer task' => fn ($work) => [$task = async(fn () => await(async(fn () => 1)) ? timeout(60, $work) : 0), fn () => $task->cancel()],
];

function play(callable $make, callable $way, int $at): array {
    [$work, $check, $beside, $most] = $make() + [2 => [], 3 => PHP_INT_MAX];
    $others = array_map(fn ($other) => async($other), $beside);
    [$task, $cancel] = $way($work);
    turns($at);
    $late = $task->isDone() || $at === $most;
    $cancel();
    try { $end = timeout(20, fn () => await($task)); } catch (Exception $e) { $end = $e::class; }
    if ($late && $at !== $most ? $end !== 'done' : !in_array($end, ['done', 'Fermata\Exception\CancelledException'], true)) { return [$late, "ended with $end"]; }
    foreach ($others as $other) { timeout(20, fn () => await($other)); }
    return [$late, $check()];
}

$server->get('/{world}', function (Request $request) use ($worlds, $ways) {
    $make = $worlds[rawurldecode($request->route('world'))];
    $memory = [];
    for ($pass = 0; $pass < 4; $pass++) {
        foreach ($ways as $way => $how) {
            for ($at = 0, $late = false; !$late; $at++) {
                [$late, $wrong] = play($make, $how, $at);
                if ($wrong !== '') { return Response::text("$way, turn $at: $wrong"); }
                if ($at > 500) { return Response::text("$way: never ends"); }
            }
            if ($at < 3) { return Response::text("$way: only $at turns"); }
        }
        gc_collect_cycles();
        $memory[] = memory_get_usage();
    }
    // PHP's own allocator is counted by memcheck itself.
    $flat = getenv('USE_ZEND_ALLOC') === '0' || $memory[3] - $memory[2] < 512;
    return Response::text($flat ? 'right' : 'grows: ' . json_encode($memory));
});
$server->get('/', fn () => Response::json(array_keys($worlds)));
PHP);
foreach (json_decode($server->get('/')->body) as $world) {
    echo "$world: ", $server->get('/' . rawurlencode($world))->body, "\n";
}
var_dump($server->stop());
?>
--EXPECT--
turns: right
delay: right
pop in time: right
await: right
all: right
all fails: right
race: right
mutex: right
lock: right
semaphore: right
pop: right
push: right
foreach: right
shield: right
timeout: right
in a Fiber: right
a semaphore in all: right
int(0)
