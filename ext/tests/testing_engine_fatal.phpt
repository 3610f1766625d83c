--TEST--
A fatal error of a handler ends a test's process with what was logged, and a process that a handler has forked ends by itself
--EXTENSIONS--
fermata
pcntl
--FILE--
<?php
$program = <<<'PHP'
use Fermata\{Response, Server};
use Fermata\Testing\Engine;
register_shutdown_function(fn () => print("shut down\n"));
$server = new Server();
$server->get('/fatal', function () {
    eval('class A { abstract function b(); }');
});
$server->get('/fork', function () {
    $pid = pcntl_fork();
    if ($pid === 0) {
        return Response::text('of the child');
    }
    pcntl_waitpid($pid, $status);
    return Response::text('child ended: ' . pcntl_wifexited($status));
});
$server->get('/waits', function () {
    try {
        Fermata\delay(1);
    } finally {
        echo "never\n";
    }
});
$engine = new Engine($server);
foreach (['/waits', '/fork', '/fatal'] as $path) {
    [$client, $end] = $all[] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    stream_set_blocking($client, false);
    fwrite($client, "GET $path HTTP/1.1\r\nHost: test\r\n\r\n");
    $engine->run();
    echo substr((string) strstr((string) fread($client, 9999), "\r\n\r\n"), 4), "\n";
}
echo "not reached\n";
PHP;
$command = [PHP_BINARY, '-n', '-dextension=' . (getenv('FERMATA_EXTENSION') ?: 'fermata')];
if (!in_array('pcntl', array_map('strtolower', get_loaded_extensions()), true) || extension_loaded('pcntl') && !str_contains((string) shell_exec(PHP_BINARY . ' -n -m'), 'pcntl')) {
    $command[] = '-dextension=pcntl';
}
$process = proc_open([...$command, '-r', $program], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
$output = stream_get_contents($pipes[1]);
$errors = stream_get_contents($pipes[2]);
echo $output;
echo preg_match('/Class A (contains|declares) .*abstract method/', $errors) ? "logged\n" : "not logged: $errors\n";
var_dump(proc_close($process));
?>
--EXPECT--

shut down
child ended: 1
shut down
logged
int(255)
