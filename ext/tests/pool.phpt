--TEST--
Pool: lends at most so many, waits in turn, and never lends one that is broken
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Pool;
$say = function (callable $call): string {
    try { return json_encode($call()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
};
$opened = 0;
$open = function () use (&$opened) { delay(0.001); $it = new stdClass(); $it->number = ++$opened; return $it; };
$server->get('/turns', function () use ($open, $say) {
    $pool = new Pool($open, size: 2);
    $order = [];
    $tasks = [];
    foreach (range(1, 6) as $who) {
        $tasks[] = async(function () use ($pool, $who, &$order) {
            $pool->use(function (stdClass $it) use ($who, &$order) { delay(0.05); $order[] = $who; });
        });
    }
    while ($pool->waiting() < 4) { delay(0.0005); }
    echo json_encode([$pool->idle(), $pool->borrowed(), $pool->waiting()]), "\n";
    array_map('Fermata\await', $tasks);
    echo json_encode($order), json_encode([$pool->idle(), $pool->borrowed(), $pool->waiting()]), "\n";
    return Response::text('done');
});
$server->get('/ended', function () use ($open, $say) {
    $pool = new Pool($open, size: 1, waitSeconds: 0.2);
    $number = fn () => $pool->use(fn (stdClass $it) => $it->number);
    $first = $number();
    // After an exception, the state of a library's object is unknown, unless the program provides a reset.
    echo $say(fn () => $pool->use(fn () => throw new LogicException('mine'))), ' ', $number() - $first, "\n";
    $kept = new Pool($open, size: 1, reset: fn (stdClass $it) => null);
    $which = fn () => $kept->use(fn (stdClass $it) => $it->number);
    $before = $which();
    echo $say(fn () => $kept->use(fn () => throw new LogicException('mine'))), ' ', $which() - $before, "\n";
    $first = $number();
    echo $say(fn () => timeout(0.005, fn () => $pool->use(fn () => delay(60)))), ' ', $number() - $first, "\n";
    $task = async(fn () => $pool->use(fn () => delay(60)));
    delay(0.001);
    echo $say($number), "\n";
    // A waiting task that is cancelled exactly when its turn comes.
    $next = async($number);
    delay(0.001);
    $task->cancel();
    $next->cancel();
    echo $say(fn () => await($task)), ' ', $say(fn () => await($next)), ' ', $number() > $first ? 'goes on' : '', "\n";
    return Response::text('done');
});
$server->get('/checked', function () use ($open, $say) {
    $log = [];
    $fails = true;
    $pool = new Pool($open, size: 1, checkAfterSeconds: 0, check: function (stdClass $it) use (&$log) { $log[] = 'checked'; return count($log) > 1; },
        reset: function (stdClass $it) use (&$log, &$fails) { $log[] = 'reset'; $fails && throw new Exception('cannot be reset'); });
    $number = fn () => $pool->use(fn (stdClass $it) => $it->number);
    $first = $number();
    echo $number() - $first, ' ';
    $fails = false;
    echo $number() - $first, ' ', $number() - $first, ' ', implode(' ', $log), "\n";
    return Response::text('done');
});
$server->get('/closed', function () use ($open, $say) {
    $pool = new Pool($open, size: 1);
    $task = async(fn () => $pool->use(function () { delay(0.005); return 'mine'; }));
    $waits = async(fn () => $pool->use(fn () => 1));
    delay(0.003);
    $pool->close();
    echo $say(fn () => await($waits)), ' ', await($task), ' ', $say(fn () => $pool->use(fn () => 1)), ' ', $pool->idle(), $pool->borrowed(), "\n";
    $broken = new Pool(fn () => throw new Exception('no server'), size: 1);
    echo $say(fn () => $broken->use(fn () => 1)), ' ', $say(fn () => $broken->use(fn () => 1)), ' ', $broken->borrowed(), "\n";
    echo $say(fn () => new Pool($open, 0)), ' ', $say(fn () => (new Pool(fn () => null, 1))->use(fn () => 1)), "\n";
    return Response::text('done');
});
$server->get('/exit', function () use ($open) {
    static $pool;
    $pool ??= new Pool($open, size: 1);
    $pool->use(function () { exit; });
});
PHP);
foreach (['/turns', '/ended', '/checked', '/closed', '/exit', '/exit'] as $target) {
    echo $server->get($target)->status, "\n";
}
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
200
200
200
200
500
500
int(0)
[0,2,4]
[1,2,3,4,5,6][2,0,0]
LogicException: mine 1
LogicException: mine 0
Fermata\Exception\TimeoutException: the time given to timeout() is over 2
Fermata\Exception\TimeoutException: all 1 connections of the pool are borrowed, and none came back within 200 ms (waitSeconds)
Fermata\Exception\CancelledException: the task was cancelled Fermata\Exception\CancelledException: the task was cancelled goes on
1 2 2 reset reset reset checked reset
Fermata\Exception\ConnectionClosedException: the pool is closed mine Fermata\Exception\ConnectionClosedException: the pool is closed 00
Exception: no server Exception: no server 0
Fermata\Exception\MisuseError: a pool has 1 to 10000 connections, not 0 Fermata\Exception\MisuseError: the connect function of a pool returns a connection, not null
