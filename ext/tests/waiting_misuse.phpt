--TEST--
Where PHP cannot wait, and waits that would never end
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . preg_replace('~/\S*/~', '', $e->getMessage()); }
}
final class Waits { public static string $seen = ''; function __destruct() { self::$seen = shown(fn () => delay(0)); } }
spl_autoload_register(function ($name) { echo shown(fn () => delay(0)), "\n"; });
$cases = [
    'destructor' => function () { (function () { new Waits; })(); return PHP_VERSION_ID >= 80400 && Waits::$seen === 'null' ? 'Fermata\Exception\MisuseError: PHP cannot wait in a destructor; wait before the object is released' : Waits::$seen; },
    'output' => function () { $seen = ''; ob_start(function ($text) use (&$seen) { $seen = shown(fn () => delay(0)); return ''; }); echo 'x'; ob_end_clean(); return $seen; },
    'autoload' => fn () => class_exists('Missing'),
    'negative' => fn () => delay(-1),
    'not a number' => fn () => delay(NAN),
    'negative timeout' => fn () => timeout(-1, fn () => null),
    'itself' => function () { $f = null; $f = async(function () use (&$f) { return await($f); }); return await($f); },
    'circle' => function () { $a = $b = null; $a = async(function () use (&$b) { return await($b); }); $b = async(fn () => await($a)); return await($b); },
    'mutex twice' => function () { $m = new Mutex; $m->lock(); $m->lock(); },
    'mutexes' => function () { $a = new Mutex; $b = new Mutex;
        $f = async(function () use ($a, $b) { $b->lock(); delay(0); $a->lock(); });
        $a->lock(); delay(0); $b->lock(); $a->unlock(); return await($f); },
    'other mutex' => function () { $m = new Mutex; async(function () use ($m) { $m->lock(); delay(0.01); $m->unlock(); }); delay(0); $m->unlock(); },
    'free mutex' => fn () => (new Mutex)->unlock(),
    'permits' => fn () => (new Semaphore(2))->release(),
    'no permits' => fn () => new Semaphore(0),
    'semaphore twice' => fn () => (new Semaphore(2))->__construct(2),
    'capacity' => fn () => new Queue(0),
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
// A Future, its exception and the trace's arguments refer to each other.
$server->get('/collect/cycles', fn () => Response::text((string) (gc_collect_cycles() > 0)));
PHP);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
echo $server->get('/collect/cycles'), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/without unlocking/') !== '' ? 'forgotten' : '', "\n";
foreach (['Fermata\delay' => [0], 'Fermata\async' => ['time'], 'Fermata\all' => ['time'], 'Fermata\timeout' => [1, 'time'], 'Fermata\shield' => ['time']] as $function => $arguments) {
    thrown(fn () => $function(...$arguments));
}
thrown(fn () => Fermata\Context::get('a'));
thrown(fn () => (new Fermata\Sync\Mutex)->lock());
thrown(fn () => new Fermata\Future);
thrown(fn () => clone new Fermata\Cancellation);
(new Fermata\Cancellation)->cancel();
$queue = new Fermata\Sync\Queue(2);
var_dump($queue->tryPush('a'), $queue->tryPush('b'), $queue->tryPush('c'), count($queue), $queue->pop(), $queue->tryPop(), $queue->tryPop('none'));
thrown(fn () => $queue->pop());
?>
--EXPECTF--
destructor: "Fermata\\Exception\\MisuseError: PHP cannot wait in a destructor; wait before the object is released"
output: "Fermata\\Exception\\MisuseError: PHP cannot wait in a callback of ob_start(); wait before the output is written"
autoload: false
negative: Fermata\Exception\MisuseError: a time to wait must be 0 or more seconds, not -1
not a number: Fermata\Exception\MisuseError: a time to wait must be 0 or more seconds, not %s
negative timeout: Fermata\Exception\MisuseError: a time to wait must be 0 or more seconds, not -1
itself: Fermata\Exception\MisuseError: deadlock: this would wait for itself
circle: Fermata\Exception\MisuseError: deadlock: this would wait for what waits for it in server.php:%d
mutex twice: Fermata\Exception\MisuseError: deadlock: this would wait for itself
mutexes: Fermata\Exception\MisuseError: deadlock: this would wait for what waits for it in server.php:%d
other mutex: Fermata\Exception\MisuseError: the mutex is locked by another handler or task, which has to unlock it
free mutex: Fermata\Exception\MisuseError: the mutex is not locked
permits: Fermata\Exception\MisuseError: more permits are released than were acquired; the semaphore has 2
no permits: Fermata\Exception\MisuseError: a semaphore has 1 permit or more, not 0
semaphore twice: Fermata\Exception\MisuseError: the object is already constructed; create a new one
capacity: Fermata\Exception\MisuseError: the capacity of a queue is 1 to 16777216 items, not 0
200 1
int(0)
Fermata\Exception\MisuseError: PHP cannot wait while it loads a class: other handlers would not find the class meanwhile
forgotten
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
Fermata\Exception\MisuseError: tasks can be begun only by handlers and tasks of a running server
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
Fermata\Exception\MisuseError: only handlers and tasks of a running server have a Context
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
Error: Call to private Fermata\Future::__construct() from %s
Error: Trying to clone an uncloneable object of class Fermata\Cancellation
bool(true)
bool(true)
bool(false)
int(2)
string(1) "a"
string(1) "b"
string(4) "none"
Fermata\Exception\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can
