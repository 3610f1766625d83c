--TEST--
every() and defer(): work without a client, in one worker or each, one run at a time, after the answer
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

// Two workers write to one file: each line is one write.
$server = new TestServer(<<<'PHP'
$server->every(0.01, function () { static $n = 0; if (++$n <= 3) { echo "tick $n\n"; } });
$server->every(0.01, function () { static $running = 0; $running++; delay(0.05); if ($running !== 1) { echo "two at once\n"; } $running--; });
$server->every(0.01, function () { static $n = 0; if (!$n++) { throw new LogicException('every fails'); } });
$server->every(0.005, function () { static $n = 0; if (!$n++) { echo 'worker ' . getmypid() . "\n"; } }, inEachWorker: true);
$server->get('/defer', function (Request $r) use ($server) {
    Context::set('name', 'context');
    $server->defer(function () use ($r) { echo "first {$r->path()} " . Context::get('name') . "\n"; delay(getenv("USE_ZEND_ALLOC") === "0" ? 5 : 0.01); echo "first ends\n"; });
    $server->defer(function () use ($server) { $server->defer(fn () => print("third\n")); echo "second\n"; });
    echo "handler ends\n";
    return Response::text('answered');
});
$server->get('/late', function () use ($server) { $server->defer(function () { delay(0.2); echo "drained\n"; }); delay(0); throw new LogicException('late fails'); });
$server->get('/fails', function () use ($server) { $server->defer(fn () => throw new LogicException('deferred fails')); return Response::accepted(); });
PHP, 'workers: 2');
foreach (['/defer' => 'first ends', '/fails' => 'tick 3'] as $target => $end) {
    echo $server->get($target)->status, "\n";
    // Later actions of another worker follow it.
    $server->waitForOutput("/$end/");
}
$server->waitForOutput('/worker /', 2);
$server->wait('/deferred fails/');
$server->wait('/every fails/');
echo $server->get('/late')->status, "\n";
var_dump($server->stop());
$output = $server->output();
echo preg_replace('/^(tick|worker) .*\n/m', '', $output);
echo substr_count($output, 'tick'), ' ', substr_count($output, 'worker'), "\n";
foreach (['every fails', 'deferred fails', 'late fails'] as $text) {
    echo substr_count($server->log(), $text), ' ', preg_replace('/^.*?\[worker \d\] /m', '', $server->logged("/$text/")), "\n";
}
thrown(fn () => (new Fermata\Server)->every(0, 'time'));
thrown(fn () => (new Fermata\Server)->every(NAN, 'time'));
thrown(fn () => (new Fermata\Server)->defer('time'));
?>
--EXPECTF--
200
202
500
int(0)
handler ends
first /defer context
second
third
first ends
drained
3 2
1 a task failed and nobody awaited it: LogicException: every fails in server.php:3
1 a task failed and nobody awaited it: LogicException: deferred fails in server.php:%d
1 LogicException: late fails in server.php:%d
Fermata\Exception\MisuseError: the interval of every() must be more than 0 seconds and at most a year, not 0
Fermata\Exception\MisuseError: the interval of every() must be more than 0 seconds and at most a year, not %s
Fermata\Exception\MisuseError: defer() can be called only by handlers and tasks of a running server
