--TEST--
Hook::Processes: a command whose wait is cut short, or whose handler is, leaves no zombie
--EXTENSIONS--
fermata
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
$server->get('/cut', function () {
    $process = proc_open('exec sleep 60', [], $pipes);
    $pid = proc_get_status($process)['pid'];
    foreach ([fn () => exec('exec sleep 60'), fn () => proc_close($process)] as $call) {
        try { timeout(0.01, $call); } catch (Fermata\Exception\TimeoutException $e) { echo $e->getMessage(), "\n"; }
    }
    exec("kill $pid");
    return Response::text('done');
});
$server->get('/dropped', function () {
    $run = function () { $process = proc_open('exec sleep 0.2', [], $pipes); try { delay(60); } finally { proc_terminate($process); } };
    foreach ([$run, function () { proc_open('exec sleep 0.2', [], $pipes); }] as $call) {
        try { timeout(0.01, $call); } catch (Fermata\Exception\TimeoutException) { }
    }
    return Response::text('done');
});
// The second command's entry is removed after its exit.
$server->get('/children', fn () => Response::text((string) preg_match_all('/^State:\s+Z/m', implode(array_map(
    fn ($task) => (string) @file_get_contents("/proc/$task/status"), preg_split('/\s+/', trim(file_get_contents('/proc/self/task/' . getmypid() . '/children'))))))));
PHP);
echo $server->get('/cut'), "\n", $server->get('/dropped'), "\n";
while ($server->get('/children')->body !== '0') { usleep(10000); }
echo "no zombies\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 done
200 done
no zombies
int(0)
the time given to timeout() is over
the time given to timeout() is over
