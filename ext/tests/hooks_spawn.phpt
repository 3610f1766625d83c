--TEST--
Hook::Processes: proc_open() gives the command what PHP gives it
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') {
    die('skip valgrind forks where posix_spawn() does not, and what fails then is said elsewhere');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Processes);
$run = function (array|string $command, array $pipes = [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], ?string $folder = null, ?array $environment = null) {
    $process = proc_open($command, $pipes, $ends, $folder, $environment);
    if (!$process) {
        return ['status' => 127];
    }
    $all = array_map(stream_get_contents(...), array_diff_key($ends, [0 => 0]));
    return array_map(trim(...), $all) + ['status' => proc_close($process)];
};
$server->get('/same', function () use ($run) {
    $wanted = ['FOO' => 'bar', 'PATH' => getenv('PATH')];
    file_put_contents('in', 'of a file');
    $all = [
        $run('echo $FOO; exit 4', environment: $wanted),
        $run(['sh', '-c', 'echo $FOO; pwd >&2; exit 5'], folder: '/', environment: $wanted),
        // From 8.3 on PHP starts no command in a missing folder; before, it starts it in its own.
        @$run(['pwd'], folder: '/nowhere-at-all') === (PHP_VERSION_ID < 80300 ? [1 => getcwd(), 2 => '', 'status' => 0] : ['status' => 127]),
        @$run(['nowhere-at-all'])['status'],
        $run('nowhere-at-all')['status'],
        $run('cat; echo to 2 >&2; echo to 5 >&5', [['file', 'in', 'r'], 1 => ['pipe', 'w'], 2 => ['redirect', 1], 5 => ['file', 'out', 'w']]),
        file_get_contents('out'),
        $run('ls /proc/self/fd | wc -l')[1] === $run('ls /proc/self/fd | wc -l')[1],
        getenv('FOO'),
    ];
    $fiber = new Fiber(fn () => $run(['sh', '-c', 'exit 6']));
    $fiber->start();
    $all[] = $fiber->getReturn()['status'];
    $deep = fn (Closure $deep, int $n) => $n ? array_map(fn () => $deep($deep, $n - 1), [0])[0] : $run('exit 7')['status'];
    $all[] = $deep($deep, 50);
    $tasks = [];
    for ($i = 0; $i < 20; $i++) {
        $tasks[] = async(fn () => $run("echo $i; exit $i", [['file', 'in', 'r'], ['pipe', 'w'], ['file', "out$i", 'w']]));
    }
    foreach (all(...$tasks) as $i => $one) {
        $all['tasks'][] = $one === [1 => "$i", 'status' => $i];
    }
    $all['tasks'] = array_unique($all['tasks']);
    return Response::json($all);
});
PHP);
echo $server->get('/same'), "\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
200 {"0":{"1":"bar","2":"","status":4},"1":{"1":"bar","2":"/","status":5},"2":true,"3":127,"4":127,"5":{"1":"of a fileto 2","status":0},"6":"to 5\n","7":true,"8":false,"9":6,"10":7,"tasks":[true]}
int(0)
