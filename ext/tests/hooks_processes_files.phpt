--TEST--
Hook::Processes: a command has no file that another handler has open
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
file_put_contents('secret', 'of alice');
$server->get('/open', function () use (&$kept) {
    $kept = fopen('secret', 'r');
    return Response::text('open');
});
$look = 'ls -l /proc/self/fd; echo end';
$commands = [
    'proc_open' => function () use ($look) {
        $process = proc_open($look, [1 => ['pipe', 'w']], $pipes);
        return stream_get_contents($pipes[1]) . proc_close($process);
    },
    'proc_open, no shell' => function () {
        $process = proc_open(['ls', '-l', '/proc/self/fd'], [1 => ['pipe', 'w']], $pipes);
        return stream_get_contents($pipes[1]) . 'end' . proc_close($process);
    },
    'popen' => function () use ($look) {
        $command = popen($look, 'r');
        return stream_get_contents($command) . pclose($command);
    },
    'exec' => function () use ($look) { exec($look, $lines); return implode($lines); },
    'shell_exec' => fn () => shell_exec($look),
];
$server->get('/found', fn () => Response::json(array_map(function ($run) {
    $found = $run();
    return [str_contains($found, 'secret'), str_contains($found, 'end')];
}, $commands)));
// A command has the descriptors that it was given.
$server->get('/given', function () {
    $process = proc_open('cat <&5', [1 => ['pipe', 'w'], 5 => fopen('secret', 'r'), 6 => ['file', 'secret', 'r']], $pipes);
    return Response::text(stream_get_contents($pipes[1]) . proc_close($process));
});
// Also if a pipe that PHP opens already has the number that the command is to use.
$server->get('/numbers', function () {
    $wrong = [];
    for ($number = 3; $number < 64; $number++) {
        $process = proc_open(['bash', '-c', "echo $number >&$number"], [$number => ['pipe', 'w']], $pipes);
        if (stream_get_contents($pipes[$number]) !== "$number\n" || proc_close($process) !== 0) {
            $wrong[] = $number;
        }
    }
    return Response::json($wrong);
});
PHP);
echo $server->get('/open'), "\n", $server->get('/found'), "\n", $server->get('/given'), "\n", $server->get('/numbers'), "\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
200 open
200 {"proc_open":[false,true],"proc_open, no shell":[false,true],"popen":[false,true],"exec":[false,true],"shell_exec":[false,true]}
200 of alice0
200 []
int(0)
