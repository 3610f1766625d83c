--TEST--
Hook::Processes: proc_open() copies nothing of the worker
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') {
    die('skip valgrind forks where posix_spawn() does not');
}
if (str_contains(file_get_contents('/proc/self/maps'), 'musl') && PHP_VERSION_ID < 80300) {
    die('skip musl has no getcontext(), without which PHP forks for proc_open()');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Processes);
// After a fork, the first write to each page copies it, which costs one page fault.
$server->get('/pages', function () {
    $pages = 16_384;
    $memory = str_repeat('x', $pages * 4096);
    $process = proc_open(['cat'], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    $before = getrusage()['ru_minflt'];
    for ($page = 0; $page < $pages; $page++) {
        $memory[$page * 4096] = 'y';
    }
    $faults = getrusage()['ru_minflt'] - $before;
    fclose($pipes[0]);
    return Response::text(($faults < $pages / 2 ? 'few' : $faults) . ' ' . proc_close($process));
});
PHP);
echo $server->get('/pages'), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 few 0
int(0)
