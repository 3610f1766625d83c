--TEST--
Contention: two loops on one Mutex, and what is given in the very turn in which the wait for it times out
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$shared = new Mutex;
$inside = 0;
$order = '';
/** Locks and unlocks repeatedly without a pause, and requests the lock again immediately. */
$loop = function (string $name, int $rounds) use ($shared, &$inside, &$order): int {
    $mistakes = 0;
    for ($round = 0; $round < $rounds; $round++) {
        $shared->lock();
        $mistakes += ++$inside !== 1;
        $order .= $name;
        delay($round % 2 ? 0 : 0.001);
        $inside--;
        $shared->unlock();
    }
    return $mistakes;
};
$server->get('/tasks', function () use ($loop, &$order, $shared) {
    $order = '';
    $mistakes = all(fn () => $loop('a', 50), fn () => $loop('b', 50));
    return Response::json([$mistakes, $order === str_repeat('ab', 50), $shared->isLocked()]);
});
$arrived = 0;
$server->get('/loop/{name}', function (Request $r) use ($loop, &$arrived, &$order) {
    $order = '';
    for ($arrived++; $arrived < 2;) { delay(0.001); }
    return Response::json($loop($r->route('name'), 50));
});
// While both loops run, they alternate.
$server->get('/order', function () use (&$order, $shared) {
    return Response::json([preg_match('/^(d{1,25}(cd){25,}c{0,25}|c{1,25}(dc){25,}d{0,25})$/', $order), $shared->isLocked()]);
});

// One task holds a resource for a while, another waits for it with a time-out, and the loop is blocked until both times have passed.
// So the resource is released when the waiting task is due to time out but has not resumed: the task gets it all the same.
$late = function (callable $hold, callable $give, callable $take): string {
    for ($ms = 10; $ms < 10000; $ms *= 2) {
        $begin = hrtime(true);
        $gives = async(function () use ($hold, $give, $ms) { $hold(); delay($ms / 2000); $give(); });
        $takes = async(function () use ($take, $ms) {
            try { return timeout($ms / 1000, $take); } catch (Fermata\Exception\TimeoutException) { return 'timed out'; }
        });
        delay(0);
        $isInTime = hrtime(true) - $begin < $ms * 500_000;
        usleep($ms * 2000);
        [, $taken] = all($gives, $takes);
        if ($isInTime) { return $taken; }
        // The machine was busy, and a time passed too early. Repeat with longer ones.
    }
    return 'never in time';
};
$server->get('/semaphore', function () use ($late) {
    $s = new Semaphore(1);
    $seen = $late(fn () => $s->acquire(), fn () => $s->release(), function () use ($s) { $s->acquire(); $s->release(); return 'acquired'; });
    return Response::json([$seen, $s->tryAcquire(), $s->tryAcquire()]);
});
$server->get('/mutex', function () use ($late) {
    $m = new Mutex;
    $seen = $late(fn () => $m->lock(), fn () => $m->unlock(), function () use ($m) { $m->lock(); $m->unlock(); return 'locked'; });
    return Response::json([$seen, $m->isLocked()]);
});
$server->get('/queue', function () use ($late) {
    $q = new Queue(2);
    $seen = $late(fn () => $q->tryPop(), fn () => $q->push('item'), fn () => $q->pop());
    return Response::json([$seen, count($q)]);
});
PHP);
echo $server->get('/tasks')->body, "\n";
$loops = [$server->connect(), $server->connect()];
foreach ($loops as $n => $connection) {
    $connection->start('GET', '/loop/' . ['c', 'd'][$n]);
}
foreach ($loops as $connection) {
    echo $connection->answer()->body, "\n";
}
echo $server->get('/order')->body, "\n";
foreach (['/semaphore', '/mutex', '/queue'] as $target) {
    echo $target, ' ', $server->get($target)->body, "\n";
}
var_dump($server->stop());
?>
--EXPECT--
[[0,0],true,false]
0
0
[1,false]
/semaphore ["acquired",true,false]
/mutex ["locked",false]
/queue ["item",0]
int(0)
