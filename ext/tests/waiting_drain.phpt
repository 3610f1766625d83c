--TEST--
A server that stops waits for handlers and tasks, and ends those that take too long
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
$slow = getenv('FERMATA_PHPT_WAIT_S') ? 10 : 1;
$server->get('/late', function () use ($slow) { echo "begins\n"; delay(0.2 * $slow); echo "late\n"; return Response::text('late'); });
$server->get('/task', function () use ($slow) { async(function () use ($slow) { delay(0.4 * $slow); echo "task\n"; }); return Response::text('task'); });
$server->get('/never', function () {
    try { echo "begins\n"; delay(3600); } finally {
        echo "finally\n";
        try { delay(1); } catch (Throwable $e) { echo $e::class, ': ', $e->getMessage(), "\n"; }
    }
});
$server->get('/queue', function () { async(function () { $q = new Queue; try { $q->pop(); } finally { echo "queue\n"; } }); return Response::text('queue'); });
PHP;
$server = new TestServer($code);
echo $server->get('/task'), "\n";
$late = $server->connect();
$late->start('GET', '/late');
$server->waitForOutput('/begins/');
$server->signal(15);
echo $late->answer(), "\n";
var_dump($server->ended());
echo $server->output();

$server = new TestServer($code, 'workers: 1, limits: new Limits(drainTimeoutMs: 100)');
echo $server->get('/queue'), "\n";
$never = $server->connect();
$never->start('GET', '/never');
$server->waitForOutput('/begins/');
$server->signal(15);
var_dump($never->ended(), $server->ended());
echo $server->output(), preg_replace('/^.*?\[worker 0\] /m', '', $server->logged('/still waits/')), "\n";

$server = new TestServer($code);
echo $server->get('/queue'), "\n";
var_dump($server->stop());
echo $server->output(), preg_replace('/^.*?\[worker 0\] /m', '', $server->logged('/still waits/')), "\n";
?>
--EXPECT--
200 task
200 late
int(0)
begins
late
task
200 queue
bool(true)
int(0)
begins
finally
Fermata\Exception\CancelledException: the worker stops, and nothing can be waited for any more
queue
a handler still waits in server.php:5 when the worker stops, and was ended
a task still waits in server.php:10 when the worker stops, and was ended
200 queue
int(0)
queue
a task still waits in server.php:10 when the worker stops, and was ended
