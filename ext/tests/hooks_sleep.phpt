--TEST--
Hook::Sleep: others go on, results are PHP's, a wait that has to end ends
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sleep);
$functions = [
    'sleep' => fn () => sleep(1),
    'usleep' => fn () => usleep(300000),
    'nanosleep' => fn () => time_nanosleep(0, 300000000),
    'until' => fn () => time_sleep_until(microtime(true) + 0.3),
];
$server->get('/by/{name}', function (Request $r) use ($functions) {
    echo "begins\n";
    $since = hrtime(true);
    $result = $functions[$r->route('name')]();
    return Response::text(var_export($result, true) . ((hrtime(true) - $since) >= 299_000_000 ? ' waited' : ' too short'));
});
$server->get('/now', fn () => Response::text('now'));
$server->get('/short', function () { usleep(0); usleep(10); sleep(0); return Response::text(var_export(time_nanosleep(0, 0), true)); });
$server->get('/invalid', function () {
    foreach ([fn () => sleep(-1), fn () => usleep(-1), fn () => time_nanosleep(-1, 0), fn () => time_nanosleep(0, 1000000000)] as $call) {
        try { var_dump(@$call()); } catch (ValueError $e) { echo $e->getMessage(), "\n"; }
    }
    var_dump(@time_sleep_until(1));
    return Response::text('done');
});
$server->get('/cut', function () {
    foreach ([fn () => sleep(60), fn () => time_nanosleep(60, 0), fn () => usleep(60000000)] as $call) {
        try { timeout(0.01, $call); } catch (Fermata\Exception\TimeoutException $e) { echo $e->getMessage(), "\n"; }
    }
    return Response::text('done');
});
$server->get('/destructor', function () {
    $object = new class { public function __destruct() { echo 'destructor ', usleep(1000), "\n"; } };
    unset($object);
    return Response::text('done');
});
$server->get('/fiber', function () { $fiber = new Fiber(function () { usleep(1000); return 'in a Fiber'; }); $fiber->start(); return Response::text($fiber->getReturn()); });
$server->get('/gone', function () { echo "begins\n"; try { sleep(60); } finally { echo "left\n"; } });
PHP);
foreach (['sleep', 'usleep', 'nanosleep', 'until'] as $name) {
    $begun = substr_count($server->output(), 'begins');
    $slow = $server->connect();
    $slow->start('GET', "/by/$name");
    while (substr_count($server->output(), 'begins') === $begun) { usleep(1000); }
    echo $server->get('/now')->body, ' ', $slow->answer()->body, "\n";
}
foreach (['/short', '/invalid', '/cut', '/destructor', '/fiber'] as $target) {
    echo $server->get($target), "\n";
}
$gone = $server->connect();
$begun = substr_count($server->output(), 'begins');
$gone->start('GET', '/gone');
while (substr_count($server->output(), 'begins') === $begun) { usleep(1000); }
$gone->cut();
while (!str_contains($server->output(), 'left')) { usleep(1000); }
var_dump($server->stop());
echo str_replace("begins\n", '', $server->output());
?>
--EXPECT--
now 0 waited
now NULL waited
now true waited
now true waited
200 true
200 done
200 done
200 done
200 in a Fiber
int(0)
sleep(): Argument #1 ($seconds) must be greater than or equal to 0
usleep(): Argument #1 ($microseconds) must be greater than or equal to 0
time_nanosleep(): Argument #1 ($seconds) must be greater than or equal to 0
Nanoseconds was not in the range 0 to 999 999 999 or seconds was negative
bool(false)
the time given to timeout() is over
the time given to timeout() is over
the time given to timeout() is over
destructor 
left
