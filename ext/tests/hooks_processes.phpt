--TEST--
Hook::Processes: commands run while others go on; output and status are PHP's
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

// Each command waits until all have started: none exits unless all run at the same time.
$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Processes);
$wait = 'echo $$ >> begun; while [ $(wc -l < begun) -lt 6 ]; do sleep 0.01; done; echo ';
$proc = function (string $command) {
    $process = proc_open(['sh', '-c', $command], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    $output = stream_get_contents($pipes[1]);
    return $output . proc_close($process);
};
$ways = [
    fn () => exec("$wait exec"),
    fn () => shell_exec("$wait shell_exec"),
    function () use ($wait) { ob_start(); passthru("$wait passthru"); return ob_get_clean(); },
    function () use ($wait) { ob_start(); system("$wait system"); return ob_get_clean(); },
    function () use ($wait) { $pipe = popen("$wait popen", 'r'); $line = fgets($pipe); return $line . pclose($pipe); },
    fn () => $proc("$wait proc_open; exit 3"),
];
$server->get('/way/{n}', fn (Request $r) => Response::text(trim($ways[(int) $r->route('n')]())));
$server->get('/status', function () {
    $codes = [];
    foreach (['exit 0', 'exit 7', 'kill -9 $$', 'nowhere-at-all 2> /dev/null'] as $command) {
        exec($command, $lines, $code);
        $codes[] = $code;
    }
    $pipe = popen('exit 5', 'r');
    $codes[] = pclose($pipe);
    $process = proc_open('exec >&-; sleep 0.05; exit 6', [1 => ['pipe', 'w']], $pipes);
    stream_get_contents($pipes[1]);
    $codes[] = proc_close($process);
    return Response::text(implode(' ', $codes));
});
$server->get('/write', function () {
    $process = proc_open('cat', [['pipe', 'r'], ['pipe', 'w']], $pipes);
    $task = async(fn () => strlen(stream_get_contents($pipes[1])));
    $written = fwrite($pipes[0], str_repeat('x', 1_000_001));
    fclose($pipes[0]);
    $pipe = popen('cat > /dev/null', 'w');
    $more = fwrite($pipe, str_repeat('y', 500_000));
    return Response::text("$written " . await($task) . ' ' . proc_close($process) . " $more " . pclose($pipe));
});
$server->get('/now', fn () => Response::text('now'));
PHP);
$clients = [];
for ($i = 0; $i < 6; $i++) {
    $clients[] = $client = $server->connect();
    $client->start('GET', "/way/$i");
}
echo $server->get('/now'), "\n";
foreach ($clients as $client) {
    echo $client->answer(), "\n";
}
foreach (['/status', '/write'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 now
200 exec
200 shell_exec
200 passthru
200 system
200 popen
0
200 proc_open
3
200 0 7 9 127 5 6
200 1000001 1000001 0 500000 0
int(0)
