--TEST--
Table: workers and jobs share its rows, also when one is killed while it writes; one made in a running server is refused
--EXTENSIONS--
fermata
posix
--FILE--
<?php
require __DIR__ . '/server.inc';
require __DIR__ . '/jit.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Table;
use Fermata\Table\Column;
use Fermata\Worker;
$table = new Table(50, [Column::int('first'), Column::string('text', 3000), Column::int('last')]);
$pids = new Table(10, [Column::int('pid')]);
$table->set('start', ['first' => 7]);
$jobs = $server->jobs(1);
$jobs->add('add', fn (int $by): int => $table->increment('sum', 'first', $by));
$jobs->add('make', function () {
    try {
        new Table(1, [Column::int('x')]);
    } catch (Fermata\Exception\MisuseError $error) {
        return $error->getMessage();
    }
});
$server->get('/add', fn () => Response::text((string) $table->increment('sum', 'first')));
$server->get('/job', fn () => Response::text((string) $jobs->run('add', 100)));
$server->get('/start', fn () => Response::json($table->get('start')));
$server->get('/make', function () use ($jobs) {
    try {
        new Table(1, [Column::int('x')]);
    } catch (Fermata\Exception\MisuseError $error) {
        return Response::json([$error->getMessage(), $jobs->run('make')]);
    }
});
$server->get('/pid', fn () => Response::json(array_column(iterator_to_array($pids), 'pid')));
$server->get('/torn', function () use ($table) {
    $seen = 0;
    foreach ($table as $key => $row) {
        if (str_starts_with($key, 'row')) {
            $seen++;
            if ($row['first'] !== $row['last'] || $row['text'] !== str_repeat(chr($row['first'] & 255), $row['first'] % 3000)) {
                return Response::text("torn: $key");
            }
        }
    }
    return Response::text($seen > 20 ? 'whole' : "few: $seen");
});
// Workers 1 and 2 write nearly all of their time.
$server->every(0.001, function () use ($table, $pids) {
    $index = Worker::index();
    if ($index === 0) {
        return;
    }
    $pids->set("$index", ['pid' => getmypid()]);
    for ($i = 0; $i < 200; $i++) {
        $key = 'row' . mt_rand(1, 40);
        $number = mt_rand(0, 100000);
        mt_rand(0, 9) ? $table->set($key, ['first' => $number, 'text' => str_repeat(chr($number & 255), $number % 3000), 'last' => $number]) : $table->delete($key);
    }
}, inEachWorker: true);
PHP, 'workers: 3', ini: [...(PHP_VERSION_ID < 80500 ? ['-dzend_extension=opcache'] : []), '-dopcache.enable_cli=1', ...(JIT_WORKS ? ['-dopcache.jit=tracing', '-dopcache.jit_buffer_size=32M'] : []), ...SLOW]);

/** Repeats the request if the worker that handles it is killed. */
function body(string $path): string
{
    global $server;
    for ($deadline = microtime(true) + WAIT_S;; usleep(1000)) {
        try {
            return $server->get($path)->body;
        } catch (Exception $error) {
            if (microtime(true) > $deadline) {
                throw $error;
            }
        }
    }
}

echo $server->get('/start'), "\n";
$sum = 0;
for ($i = 0; $i < 20; $i++) {
    $server->get('/add');
}
echo $server->get('/job'), "\n", $server->get('/add'), "\n", $server->get('/make'), "\n";
for ($i = 0; $i < 10; $i++) {
    usleep(mt_rand(0, 50000));
    foreach (json_decode(body('/pid')) as $pid) {
        posix_kill($pid, SIGKILL);
    }
    $answer = body('/torn');
    if (!in_array($answer, ['whole'], true) && !str_starts_with($answer, 'few')) {
        echo $answer, "\n";
    }
}
for ($deadline = microtime(true) + WAIT_S; ($answer = body('/torn')) !== 'whole' && microtime(true) < $deadline; usleep(10000)) {
}
echo $answer, "\n";
var_dump($server->stop());
?>
--EXPECT--
200 {"first":7,"text":"","last":0}
200 120
200 121
200 ["a table is made before run(): one that is made in a running server would be known to this process alone","a table is made before run(): one that is made in a running server would be known to this process alone"]
whole
int(0)
