--TEST--
Messages between workers: to one, to all, to all others, in order; to a worker that does not read, and to its replacement
--EXTENSIONS--
fermata
posix
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Worker;
$got = []; $rounds = 0; $turns = true;
$server->onMessage(function (mixed $message, int $from) use (&$got) {
    if ($message === 'wait') { delay(0.005); }
    if ($message === 'throw') { throw new DomainException('in the handler'); }
    if ($message === 'block') { usleep(500_000); }
    if ($message === 'round') { $GLOBALS['rounds']++; $GLOBALS['turns'] && Worker::send(Worker::index(), 'round'); return; }
    $got[] = [$from, $message];
});
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
$server->get('/at/{worker}/{what}', function (Request $r) {
    // Any worker may receive the request; only the intended one responds.
    if (Worker::index() !== (int) $r->route('worker')) { return new Response(421); }
    return Response::text(shown(fn () => match ($r->route('what')) {
        'got' => $GLOBALS['got'],
        'forget' => $GLOBALS['got'] = [],
        'index' => Worker::index(),
        'pid' => getmypid(),
        'one' => Worker::send(1 - Worker::index(), ['an' => 'array']),
        'self' => Worker::send(Worker::index(), 'to myself'),
        'others' => Worker::broadcast('to others'),
        'all' => Worker::broadcast('to all', self: true),
        'order' => array_walk($GLOBALS['order'], fn ($n) => Worker::send(1 - Worker::index(), $n)),
        'throw' => [Worker::send(1 - Worker::index(), 'throw'), Worker::send(1 - Worker::index(), 'after')],
        'nobody' => Worker::send(2, 1),
        'closure' => Worker::send(0, fn () => 1),
        'large' => Worker::send(0, str_repeat('x', 70_000)),
        'round' => Worker::send(Worker::index(), 'round'),
        'rounds' => $GLOBALS['rounds'],
        'no more' => $GLOBALS['turns'] = false,
        'full' => (function () { Worker::send(1 - Worker::index(), 'block'); for ($n = 0; $n < 10_000; $n++) { Worker::send(1 - Worker::index(), str_repeat('x', 60_000)); } })(),
    }));
});
$order = ['wait', ...range(1, 50), 'wait', ...range(51, 99)];
foreach ([fn () => $server->onMessage(fn () => 1), fn () => Worker::send(0, 1), fn () => Worker::index()] as $wrong) { echo shown($wrong), "\n"; }
PHP, 'workers: 2');

/** Repeats the request until the intended worker handles it. */
$ask = function (int $worker, string $what) use ($server): string {
    do { $answer = $server->get("/at/$worker/$what"); } while ($answer->status === 421);
    return $answer->body;
};
$wait = function (int $worker, callable $done) use ($ask): mixed {
    $until = microtime(true) + WAIT_S;
    do { $got = json_decode($ask($worker, 'got')); } while (!$done($got) && microtime(true) < $until);
    return $got;
};
$forget = function () use ($ask) { $ask(0, 'forget'); $ask(1, 'forget'); };
echo $ask(0, 'index'), $ask(1, 'index'), "\n";
foreach (['one' => [1], 'self' => [0], 'others' => [1], 'all' => [0, 1]] as $what => $to) {
    echo "$what: ", $ask(0, $what);
    foreach ($to as $worker) {
        echo " $worker got ", json_encode($wait($worker, fn ($got) => $got));
    }
    echo count(json_decode($ask(0, 'got'))) + count(json_decode($ask(1, 'got'))) === count($to) ? '' : ' and more', "\n";
    $forget();
}
$ask(1, 'order');
echo 'order: ', json_encode(array_column($wait(0, fn ($got) => count($got) === 101), 1)) === json_encode(['wait', ...range(1, 50), 'wait', ...range(51, 99)]) ? 'kept' : 'lost', "\n";
$forget();
$ask(0, 'throw');
echo 'throw: ', json_encode($wait(1, fn ($got) => $got)), "\n";
foreach (['nobody', 'closure', 'large'] as $what) {
    echo "$what: ", $ask(0, $what), "\n";
}
$forget();
// An endless sequence of messages does not block the worker.
$ask(0, 'round');
do { $rounds = (int) $ask(0, 'rounds'); } while ($rounds < 1000);
$ask(0, rawurlencode('no more'));
echo "rounds\n";
echo 'full: ', $ask(0, 'full'), "\n";
var_dump(count($wait(1, fn ($got) => count($got) > 1)) > 1);
$pid = (int) $ask(1, 'pid');
posix_kill($pid, SIGKILL);
do { usleep(5000); } while ((int) $ask(1, 'pid') === $pid);
$ask(0, 'one');
echo 'replaced: ', json_encode($wait(1, fn ($got) => $got)), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
01
one: null 1 got [[0,{"an":"array"}]]
self: null 0 got [[0,"to myself"]]
others: null 1 got [[0,"to others"]]
all: null 0 got [[0,"to all"]] 1 got [[0,"to all"]]
order: kept
throw: [[0,"after"]]
nobody: Fermata\Exception\MisuseError: there is no worker 2; their numbers are 0 to 1
closure: Exception: Serialization of 'Closure' is not allowed
large: Fermata\Exception\MisuseError: the message takes 70011 bytes; 65536 is the most
rounds
full: Fermata\Exception\BackpressureException: worker 1 has not read the messages it has; try again later
bool(true)
replaced: [[0,{"an":"array"}]]
int(0)
Fermata\Exception\MisuseError: there is a handler for messages already
Fermata\Exception\MisuseError: messages can be sent only in a worker of a running server
Fermata\Exception\MisuseError: only the workers of a running server have a number
