--TEST--
Jobs: results, failures, crashes and their replacements, time, bounds
--EXTENSIONS--
fermata
posix
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
ini_set('memory_limit', '-1');
$jobs = $server->jobs(processes: 2, queue: 8, timeoutMs: (int) getenv('JOB_MS'), messageBytes: 1_000_000);
final class Point { public function __construct(public int $x, public ?Point $next = null) {} }
$jobs
    ->add('sum', fn (int ...$numbers) => array_sum($numbers))
    ->add('named', fn (int $a, int $b = 2, int $c = 3) => [$a, $b, $c])
    ->add('object', fn (Point $p) => new Point($p->x + 1, $p))
    ->add('pid', function (float $s = 0) { usleep((int) ($s * 1e6)); return getmypid(); })
    ->add('throws', fn () => throw new DomainException('not here'))
    ->add('closure', fn () => fn () => 1)
    ->add('large', fn (int $bytes) => str_repeat('x', $bytes))
    ->add('echo', fn (string $text) => strrev($text))
    ->add('exits', function () { exit(3); })
    ->add('fatal', function () { eval('class A { abstract function b(); }'); })
    ->add('memory', function () { ini_set('memory_limit', '8M'); if (getenv('USE_ZEND_ALLOC') === '0') { trigger_error('memory exhausted', E_USER_ERROR); } return str_repeat('x', 100_000_000); })
    ->add('killed', function () { posix_kill(getmypid(), SIGKILL); sleep(60); })
    ->add('for ever', function () { for (;;); })
    ->add('waits', fn () => delay(0))
    ->add('runs', fn () => $GLOBALS['jobs']->run('sum'))
    ->add('output', function () { ob_start(); echo 'lost'; return 'said'; })
    ->add('changes', function () {
        $file = getcwd() . '/ended';
        register_shutdown_function(fn () => file_put_contents($file, 'x'));
        [date_default_timezone_set('Asia/Tokyo'), ini_set('precision', '5'), putenv('LEFT=1'), chdir('/'), $_GET['left'] = 1, set_error_handler(fn () => true)];
        return getmypid();
    })
    ->add('finds', fn () => [date_default_timezone_get(), ini_get('precision'), getenv('LEFT'), getcwd() === '/', $_GET, set_error_handler(null), getmypid()])
    ->add('limit', fn () => ini_get('memory_limit'))
    ->add('count', function () { static $n = 0; return ++$n; });
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . strtok($e->getMessage(), "\n"); }
}
$cases = [
    'sum' => fn () => $jobs->run('sum', 1, 2, 3),
    'named' => fn () => $jobs->run('named', 1, c: 9),
    'object' => fn () => $jobs->run('object', new Point(1)),
    'two at once' => function () use ($jobs) { $pids = []; while (count($pids) < 2) { foreach (all(...array_fill(0, 8, fn () => $jobs->run('pid', 0.02))) as $pid) { $pids[$pid] = true; } } return count($pids); },
    'throws' => fn () => preg_replace('~ in \S+~', '', shown(fn () => $jobs->run('throws'))),
    'thrown' => function () use ($jobs) { try { $jobs->run('throws'); } catch (Fermata\Exception\JobFailedException $e) { return $e->thrown; } },
    'closure' => fn () => preg_replace('~ in \S+~', '', shown(fn () => $jobs->run('closure'))),
    'large arguments' => fn () => strlen($jobs->run('echo', str_repeat('ab', 400_000))),
    'large result' => fn () => strlen($jobs->run('large', 900_000)),
    'too large arguments' => fn () => preg_replace('~\d{7}~', 'N', shown(fn () => $jobs->run('echo', str_repeat('x', 1_000_000)))),
    'too large result' => fn () => preg_replace('~\d{7}~', 'N', preg_replace('~ in \S+~', '', shown(fn () => $jobs->run('large', 2_000_000)))),
    'not serialisable' => fn () => $jobs->run('echo', fn () => 1),
    'exits' => fn () => $jobs->run('exits'),
    'fatal' => fn () => preg_replace('~died: .*abstract.*~', 'died: …', shown(fn () => $jobs->run('fatal'))),
    'memory' => fn () => preg_replace('~died: .*exhausted.*~', 'died: …', shown(fn () => $jobs->run('memory'))),
    'killed' => fn () => $jobs->run('killed'),
    'all replaced' => function () use ($jobs) { $pids = []; while (count($pids) < 2) { foreach (all(...array_fill(0, 2, fn () => $jobs->run('pid', 0.02))) as $pid) { $pids[$pid] = true; } } return 2; },
    'for ever' => fn () => preg_replace('~\d+ ms~', 'N ms', shown(fn () => $jobs->run('for ever'))),
    'waits' => fn () => preg_replace('~ in \S+~', '', shown(fn () => $jobs->run('waits'))),
    'runs' => fn () => preg_replace('~ in \S+~', '', shown(fn () => $jobs->run('runs'))),
    'changes' => function () use ($jobs) {
        do {
            $pid = $jobs->run('changes');
            $found = $jobs->run('finds');
        } while (array_pop($found) !== $pid);
        return json_encode($found) . (file_exists('ended') ? ' and shutdown functions were called' : '');
    },
    'limit' => fn () => $jobs->run('limit'),
    'output' => fn () => $jobs->run('output'),
    'unknown' => fn () => $jobs->run('no such'),
    'full' => fn () => shown(fn () => all(...array_fill(0, 9, fn () => $jobs->run('pid', 0.05)))),
    'cancelled before it began' => function () use ($jobs) {
        $busy = [async(fn () => $jobs->run('pid', 0.2)), async(fn () => $jobs->run('pid', 0.2))];
        delay(0.02);
        $f = async(fn () => $jobs->run('count')); delay(0); $f->cancel();
        $shown = shown(fn () => await($f));
        all(...$busy);
        // No process has run it.
        return [$shown, max(all(fn () => $jobs->run('count'), fn () => $jobs->run('count'))) <= 2];
    },
    'in time' => fn () => shown(fn () => timeout(0.02, fn () => $jobs->run('pid', 0.2))),
    'after all' => fn () => $jobs->run('sum', 40, 2),
];
$server->get('/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
foreach ([fn () => $server->jobs(), fn () => (new Server)->jobs(processes: 0), fn () => $jobs->add('sum', fn () => 1)] as $wrong) {
    echo shown($wrong), "\n";
}
PHP, ini: ['-dextension=posix'], environment: ['JOB_MS' => (string) (WAIT_S * 200), 'VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/' . rawurlencode($case))->body, "\n";
}
var_dump($server->stop());
// PHP 8.5 prints a trace after a fatal error.
echo preg_replace('~^((PHP )?(Fatal error: .*)?|Stack trace:|#\d+ .*)\n~m', '', $server->output());
?>
--EXPECT--
sum: 6
named: [1,2,9]
object: {"x":2,"next":{"x":1,"next":null}}
two at once: 2
throws: "Fermata\\Exception\\JobFailedException: job throws: DomainException: not here"
thrown: "DomainException"
closure: "Fermata\\Exception\\JobFailedException: job closure: Exception: Serialization of 'Closure' is not allowed"
large arguments: 800000
large result: 900000
too large arguments: "Fermata\\Exception\\MisuseError: the arguments of job echo take N bytes; messageBytes of jobs() is N"
too large result: "Fermata\\Exception\\JobFailedException: job large: Fermata\\Exception\\MisuseError: the result takes N bytes; messageBytes of jobs() is N"
not serialisable: Exception: Serialization of 'Closure' is not allowed
exits: Fermata\Exception\JobFailedException: job exits: exit() called in a job; return to end it
fatal: "Fermata\\Exception\\JobCrashedException: the process that ran job fatal has died: \u2026"
memory: "Fermata\\Exception\\JobCrashedException: the process that ran job memory has died: \u2026"
killed: Fermata\Exception\JobCrashedException: the process that ran job killed has died: it was killed or has exited; the log says how
all replaced: 2
for ever: "Fermata\\Exception\\TimeoutException: job for ever has taken longer than N ms, and was ended"
waits: "Fermata\\Exception\\JobFailedException: job waits: Fermata\\Exception\\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can"
runs: "Fermata\\Exception\\JobFailedException: job runs: Fermata\\Exception\\MisuseError: PHP cannot wait here: only handlers and tasks of a running server can"
changes: "[\"UTC\",\"14\",false,false,[],null] and shutdown functions were called"
limit: "536870912"
output: "said"
unknown: Fermata\Exception\MisuseError: there is no job no such; jobs are added to Jobs before the server runs
full: "Fermata\\Exception\\BackpressureException: 8 jobs (the queue of jobs()) of this worker have not ended; try again"
cancelled before it began: ["Fermata\\Exception\\CancelledException: the task was cancelled",true]
in time: "Fermata\\Exception\\TimeoutException: the time given to timeout() is over"
after all: 42
int(0)
Fermata\Exception\MisuseError: jobs() was called already; a server has one set of processes for its jobs
Fermata\Exception\MisuseError: jobs(): processes must be 1 to 1024, not 0
Fermata\Exception\MisuseError: there is a job sum already
lost
