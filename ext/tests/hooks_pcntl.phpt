--TEST--
Hook::Processes: who stops waiting for a process gets its status later
--EXTENSIONS--
fermata
pcntl
posix
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') {
    die('skip valgrind 3.19 does not know pidfd_open(), without which processes are waited for as by PHP');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Processes);
$server->get('/', function () {
    $process = proc_open('exec sleep 60', [], $pipes);
    $pid = proc_get_status($process)['pid'];
    try { timeout(0.01, function () use ($pid) { pcntl_waitpid($pid, $status); }); } catch (Fermata\Exception\TimeoutException) { }
    posix_kill($pid, SIGKILL);
    // The process exists as a zombie until its status is read.
    while (!str_contains((string) @file_get_contents("/proc/$pid/status"), 'zombie') && posix_kill($pid, 0)) { delay(0.001); }
    delay(0.01);
    $same = pcntl_waitpid($pid, $status) === $pid;
    return Response::text(var_export($same, true) . ' ' . pcntl_wtermsig($status));
});
PHP, ini: ['-dextension=posix']);
echo $server->get('/'), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 true 9
int(0)
