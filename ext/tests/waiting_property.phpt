--TEST--
Property: random trees of waits, ended at every one of them in every way: finally once, locks free, no fiber left, the next request is served
--EXTENSIONS--
fermata
--FILE--
<?php
/*
 * Builds a tree from a seed. The first run counts its waits. Each further run ends the tree at one of them: by a client that
 * leaves, a timeout(), a Cancellation, an exception, exit() or the memory limit. At this wait the tree waits for an event of the
 * same kind that never happens.
 *
 * FERMATA_PHPT_SEEDS=FIRST-LAST chooses other trees. A failure is printed as SEED WAY AT.
 */
require __DIR__ . '/server.inc';

$seeds = getenv('FERMATA_PHPT_SEEDS') ?: (getenv('USE_ZEND_ALLOC') === '0' ? '1-2' : '1-6');
$control = sys_get_temp_dir() . '/fermata-property-' . getmypid();
$server = new TestServer(<<<'PHP'
use Fermata\{File, File\OpenMode, File\WriteMode, Hook, Runtime};
use Fermata\Exception\CancelledException;
Runtime::hook(Hook::Sleep, Hook::Streams);

final class Ended extends Exception {}

/** Resources held by /keep while its client is connected, which are therefore never available to others. */
final class Held
{
    public static Mutex $mutex;
    public static Semaphore $semaphore;
    public static Queue $empty, $full;
    public static string $file;
    public static array $sockets;
}

/** A request: its resources, its finally blocks, and the wait at which it ends. */
final class Run
{
    public int $waits = 0;
    public bool $reached = false;
    /** @var array<int, int> how often the finally block of each began, and ended */
    public array $began = [], $ended = [];
    /** @var list<Mutex> by depth, so that nobody waits in a circle */
    public array $mutexes = [], $semaphores = [];

    public function __construct(public readonly string $way, public readonly int $at, public readonly string $folder) {}

    public function wait(bool $shielded, callable $normal, callable $never): void
    {
        if (++$this->waits !== $this->at) { $normal(); return; }
        $this->reached = true;
        match ($this->way) {
            'exception' => throw new Ended('ended'),
            'exit' => exit(1),
            'memory' => str_repeat('x', 1 << 30),
            default => $shielded ? $normal() : $never(),
        };
    }

    /** Counts the executions of the finally block. */
    public function guarded(callable $work): mixed
    {
        $id = count($this->began);
        $this->began[$id] = 1;
        $this->ended[$id] = 0;
        try { return $work(); } finally { $this->ended[$id]++; }
    }

    public function wrong(): string
    {
        foreach ($this->ended as $id => $times) {
            // exit() and a fatal error skip finally blocks; no block may run twice.
            if ($times > 1 || ($times === 0 && $this->way !== 'exit')) { return "finally block $id ran $times times"; }
        }
        foreach ($this->mutexes as $depth => $mutex) {
            if ($mutex->isLocked()) { return "the mutex at depth $depth is locked"; }
        }
        foreach ($this->semaphores as $depth => $semaphore) {
            for ($permits = 0; $semaphore->tryAcquire(); $permits++);
            if ($permits !== 2) { return "the semaphore at depth $depth has $permits permits"; }
        }
        foreach (File::list($this->folder) as $name) {
            $file = File::open("$this->folder/$name", OpenMode::Update);
            if (!$file->tryLock()) { return "$name is locked"; }
            $file->close();
        }
        return '';
    }
}

/** Returns a tree: a closure that is called with a Run. */
function tree(int $depth, bool $shielded): Closure
{
    $part = fn (bool $inShield = false) => tree($depth + 1, $shielded || $inShield);
    $kind = $depth < 3 ? mt_rand(0, 19) : mt_rand(0, 8);
    $pause = mt_rand(0, 2) / 1000;
    $at = mt_rand();
    $bytes = mt_rand(1, 200_000);
    $step = fn (callable $normal, callable $never) => fn (Run $run) => $run->wait($shielded, fn () => $normal($run), fn () => $never($run));
    $leaf = match ($kind) {
        0 => $step(fn () => delay($pause), fn () => delay(60)),
        1 => $step(fn () => delay(0), fn () => delay(60)),
        2 => $step(fn () => usleep(1000), fn () => sleep(60)),
        3 => $step(fn () => await(async(fn () => delay($pause))), function () {
            $task = async(fn () => Held::$empty->pop());
            try { await($task); } finally { $task->cancel(); }
        }),
        4 => $step(fn (Run $run) => File::write("$run->folder/$at", str_repeat('x', $bytes), WriteMode::Append), fn () => Held::$empty->pop()),
        5 => $step(function (Run $run) use ($at) {
            $file = File::open("$run->folder/lock-$at", OpenMode::Append);
            $file->lock();
            $file->writeBlock('x');
            delay(0);
            $file->close();
        }, function () { $file = File::open(Held::$file, OpenMode::Update); $file->lock(); }),
        6 => $step(function () {
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            all(fn () => fread($ours, 1), fn () => fwrite($theirs, 'x'));
        }, fn () => fread(Held::$sockets[0], 1)),
        7 => $step(function () { $queue = new Queue; all(fn () => $queue->push(1), fn () => $queue->pop()); }, fn () => Held::$full->push(1)),
        8 => $step(fn () => delay(0), fn () => Held::$semaphore->acquire()),
        default => null,
    };
    if ($leaf) { return $leaf; }
    [$one, $other] = [$part($kind === 9), $part($kind === 9)];
    return match ($kind) {
        9 => fn (Run $run) => shield(fn () => $run->guarded(fn () => [$one($run), $other($run)])),
        10, 11 => fn (Run $run) => all(fn () => $run->guarded(fn () => $one($run)), fn () => $run->guarded(fn () => $other($run))),
        12 => fn (Run $run) => race(fn () => $run->guarded(fn () => $one($run)), fn () => $run->guarded(fn () => $other($run))),
        13 => fn (Run $run) => timeout(50, fn () => $run->guarded(fn () => $one($run))),
        14 => fn (Run $run) => (new Cancellation)->run(fn () => $run->guarded(fn () => $one($run))),
        15 => function (Run $run) use ($one, $other, $depth) {
            $mutex = $run->mutexes[$depth] ??= new Mutex;
            all(fn () => $mutex->synchronized(fn () => $run->guarded(fn () => $one($run))), fn () => $mutex->synchronized(fn () => $other($run)));
        },
        16 => function (Run $run) use ($one, $depth) {
            $semaphore = $run->semaphores[$depth] ??= new Semaphore(2);
            all(...array_fill(0, 3, fn () => $semaphore->run(fn () => $run->guarded(fn () => $one($run)))));
        },
        17 => function (Run $run) use ($one) {
            $fiber = new Fiber(fn () => $run->guarded(function () use ($one, $run) { $one($run); Fiber::suspend(); $one($run); }));
            $fiber->start();
            $fiber->resume();
        },
        18 => function (Run $run) use ($one, $shielded) {
            // Catches the exception, and waits once more.
            try { $one($run); } catch (Ended | CancelledException) {}
            $run->guarded(fn () => delay(0));
        },
        default => fn (Run $run) => $run->guarded(function () use ($one, $other, $run) { $one($run); $run->wait(true, fn () => delay(0), fn () => 0); $other($run); }),
    };
}

$runs = [];
$folder = getenv('FOLDER');
$server->get('/run/{seed}/{way}/{at}', function (Request $request) use (&$runs, $folder) {
    mt_srand((int) $request->route('seed'));
    [$first, $second] = [tree(0, false), tree(0, false)];
    $way = $request->route('way');
    $runs[$request->query('id')] = $run = new Run($way, (int) $request->route('at'), "$folder/" . $request->query('id'));
    File::makeDirectory($run->folder);
    $cancellation = new Cancellation;
    if ($way === 'cancel') {
        async(function () use ($run, $cancellation) { try { while (!$run->reached) { delay(0); } } finally { $cancellation->cancel(); } });
    }
    $work = fn () => $run->guarded(function () use ($first, $second, $run) { $first($run); $second($run); });
    try {
        match ($way) { 'timeout' => timeout(0.004, $work), 'cancel' => $cancellation->run($work), default => $work() };
    } catch (CancelledException | \Fermata\Exception\TimeoutException $e) {
        if ($way === 'client') { throw $e; }
    } finally {
        $run->reached = true;
    }
    return Response::text((string) $run->waits);
});
// Responds when the run has reached the wait during which its client disconnects.
$server->get('/reached', function (Request $request) use (&$runs) {
    while (!($runs[$request->query('id')] ?? null)?->reached) { delay(0.001); }
    return Response::text('');
});
$server->get('/check', function (Request $request) use (&$runs, $folder) {
    $run = $runs[$request->query('id')] ?? null;
    // Shielded work and separate tasks complete after their handler.
    $wrong = '';
    for ($i = 0; $run && $i < 2000 && ($wrong = $run->wrong()) !== ''; $i++) { delay(0.005); }
    unset($runs[$request->query('id')]);
    File::remove("$folder/" . $request->query('id'), recursive: true);
    return Response::text($wrong);
});
$server->get('/pid', fn () => Response::text((string) getmypid()));
$server->get('/keep', function () use ($folder) {
    Held::$mutex = new Mutex; Held::$mutex->lock();
    Held::$semaphore = new Semaphore(1); Held::$semaphore->acquire();
    Held::$empty = new Queue; Held::$full = new Queue(1); Held::$full->push(0);
    Held::$file = "$folder/never";
    Held::$sockets = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $file = File::open(Held::$file, OpenMode::Append); $file->lock();
    echo "kept\n";
    delay(1000);
});
PHP, arguments: "workers: 1, control: 'unix:$control.sock'", ini: ['-dmemory_limit=64M', '-dfermata.blocking_call_ms=0'], environment: ['FOLDER' => "$control.d"]);
mkdir("$control.d");

/** Waits for a worker other than the previous one, and occupies the resources that are never released. */
$keep = function () use ($server) {
    static $kept = 0, $pid = '';
    do {
        try { $now = $server->get('/pid'); } catch (Exception) { $now = null; }
    } while ($now?->status !== 200 || $now->body === $pid);
    $pid = $now->body;
    $keeper = $server->connect();
    $keeper->start('GET', '/keep');
    $server->waitForOutput('~kept~', ++$kept);
    return $keeper;
};
/** Returns a metric of all workers, read from the control socket. */
$figure = function (string $name) use ($control): int {
    $stream = stream_socket_client("unix://$control.sock");
    fwrite($stream, "GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    return json_decode(explode("\r\n\r\n", stream_get_contents($stream), 2)[1], true)['total'][$name];
};

const POINTS_MAX = 15;
$cases = 0;
$answers = ['exception' => [200, 500], 'exit' => [200, 500], 'timeout' => [200], 'cancel' => [200], 'memory' => [500, 503]];
$keeper = $keep();
[$first, $last] = explode('-', $seeds);
foreach (range((int) $first, (int) $last) as $seed) {
    $waits = (int) $server->get("/run/$seed/none/0?id=$seed")->body;
    $wrong = $server->get("/check?id=$seed")->body;
    if ($waits < 1 || $wrong !== '') { echo "$seed: $waits waits, $wrong\n"; }
    foreach (['client', 'timeout', 'cancel', 'exception', 'exit', 'memory'] as $way) {
        // The last way crashes a worker, which is slow. If there are very many waits, some are skipped.
        $most = $way === 'memory' ? 1 + $seed % 2 : POINTS_MAX;
        for ($at = 1; $at <= $waits; $at += max(1, intdiv($waits, $most))) {
            if ($way === 'memory' && getenv('USE_ZEND_ALLOC') === '0') { break; }
            $id = ++$cases . "-$seed-$way-$at";
            $client = $server->connect();
            $client->start('GET', "/run/$seed/$way/$at?id=$id");
            if ($way === 'client') {
                $server->get("/reached?id=$id");
                $client->cut();
            } else {
                $answer = $client->answer();
                // An exception that a race() discarded or a task caught is no failure.
                if (!in_array($answer->status, $answers[$way], true)) { echo "$seed $way $at: $answer\n"; }
            }
            if ($way === 'memory') {
                $keeper->cut();
                $keeper = $keep();
            }
            $wrong = $server->get("/check?id=$id")->body;
            if ($wrong !== '') { echo "$seed $way $at: $wrong\n"; }
        }
    }
}
// Only the /keep handler waits. A metric is up to 100 ms old.
$deadline = microtime(true) + WAIT_S;
while (($waiting = $figure('fibers_waiting')) !== 1 && microtime(true) < $deadline) { $server->get('/check?id=none'); usleep(20_000); }
echo $waiting === 1 && $figure('tasks_queued') === 0 ? 'no fiber is left' : "$waiting fibers are left", "\n";
echo $cases > 50 || getenv('USE_ZEND_ALLOC') === '0' ? 'many' : $cases, " cases\n";
$keeper->cut();
var_dump($server->stop());
foreach (glob("$control.d/*") as $file) { @unlink($file); }
rmdir("$control.d");
?>
--EXPECT--
no fiber is left
many cases
int(0)
