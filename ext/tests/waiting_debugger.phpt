--TEST--
Xdebug follows handlers that wait: step by step, with traces, profiles and the stacks of exceptions
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip Xdebug itself is not what memcheck is to look at');
if (!is_file(getenv('FERMATA_XDEBUG') ?: ini_get('extension_dir') . '/xdebug.so')) die('skip needs Xdebug; FERMATA_XDEBUG names its xdebug.so');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$xdebug = getenv('FERMATA_XDEBUG') ?: ini_get('extension_dir') . '/xdebug.so';
$code = <<<'PHP'

$server->get('/wait', function () {
    $one = 1;
    delay(0.01);
    $two = $one + 1;
    [$three, $four] = all(fn () => inner($two), fn () => inner(3));
    return Response::text("$three $four");
});
function inner(int $n) {
    delay(0.002);
    return $n + 1;
}
$server->get('/throws', function () {
    try { await(async(function () { delay(0.001); failing(); })); } catch (Exception $e) { return Response::text(preg_replace('~\S*/~', '', $e->getTraceAsString())); }
});
function failing() { delay(0.001); throw new LogicException('late'); }
$server->get('/fiber', function () {
    $fiber = new Fiber(function () { delay(0.001); return Fiber::suspend('a') . 'c'; });
    $first = $fiber->start();
    delay(0.001);
    $fiber->resume('b');
    return Response::text($first . $fiber->getReturn());
});
PHP;
$play = function (TestServer $server): void {
    // Several concurrent requests, so that their steps interleave.
    for ($round = 0; $round < 3; $round++) {
        $clients = array_map(fn () => $server->connect(), range(1, 6));
        foreach ($clients as $at => $client) {
            $client->start('GET', ['/wait', '/throws', '/fiber'][$at % 3]);
        }
        foreach ($clients as $client) {
            $answers[] = (string) $client->answer();
        }
    }
    $shown = array_unique($answers);
    sort($shown);
    echo implode("\n", $shown), "\n";
    var_dump($server->stop());
};

echo "-- develop\n";
$play(new TestServer($code, ini: ["-dzend_extension=$xdebug", '-dxdebug.mode=develop']));

$folder = sys_get_temp_dir() . '/fermata-xdebug-' . getmypid();
mkdir($folder);
foreach (['trace' => 'Fermata\delay', 'profile' => 'fn=', 'coverage' => ''] as $mode => $wanted) {
    echo "-- $mode\n";
    $play(new TestServer($code, ini: ["-dzend_extension=$xdebug", "-dxdebug.mode=$mode", '-dxdebug.start_with_request=yes', "-dxdebug.output_dir=$folder", '-dxdebug.use_compression=0']));
    $found = implode('', array_map('file_get_contents', glob("$folder/*")));
    var_dump($wanted === '' || str_contains($found, $wanted));
    array_map('unlink', glob("$folder/*"));
}

echo "-- debug\n";
// A debugger that steps into every call and records each position.
file_put_contents("$folder/editor.php", <<<'PHP'
<?php
$listener = stream_socket_server('tcp://127.0.0.1:0');
file_put_contents(__DIR__ . '/port', explode(':', stream_socket_get_name($listener, false))[1]);
$seen = [];
$streams = [$listener];
$number = 0;
while (!file_exists(__DIR__ . '/end')) {
    $read = $streams; $write = $except = [];
    if (!stream_select($read, $write, $except, 0, 50_000)) { continue; }
    foreach ($read as $stream) {
        if ($stream === $listener) { $streams[] = stream_socket_accept($listener); continue; }
        $message = stream_get_line($stream, 1 << 20, "\0");
        if ($message === false || $message === '') { if (feof($stream)) { unset($streams[array_search($stream, $streams, true)]); } continue; }
        if (!str_starts_with($message, '<')) { continue; }
        if (preg_match('~filename="[^"]*server\.php" lineno="(\d+)"~', $message, $at)) {
            $seen[$at[1]] = ($seen[$at[1]] ?? 0) + 1;
            file_put_contents(__DIR__ . '/seen', json_encode($seen));
        }
        fwrite($stream, (str_contains($message, 'status="stopping"') ? 'run' : 'step_into') . ' -i ' . ++$number . "\0");
    }
}
PHP);
$editor = proc_open([PHP_BINARY, '-n', "$folder/editor.php"], [], $pipes);
while (!is_file("$folder/port") || !($port = file_get_contents("$folder/port"))) {
    usleep(2000);
}
$play(new TestServer($code, ini: ["-dzend_extension=$xdebug", '-dxdebug.mode=debug', '-dxdebug.start_with_request=yes', '-dxdebug.client_host=127.0.0.1', "-dxdebug.client_port=$port"]));
touch("$folder/end");
proc_close($editor);
$seen = json_decode(file_get_contents("$folder/seen"), true);
// Before and after the handler's wait, and before and after the wait in both tasks: 6 requests of each kind.
foreach ([3, 5, 10, 11] as $line) {
    echo "line $line: ", $seen[$line] ?? 0, "\n";
}
array_map('unlink', glob("$folder/*"));
rmdir($folder);
?>
--EXPECTF--
-- develop
200 #0 server.php(%d): failing()
#1 [internal function]: %s}()
#2 server.php(%d): Fermata\Server->run()
#3 {main}
200 3 4
200 abc
int(0)
-- trace
200 #0 server.php(%d): failing()
#1 [internal function]: %s}()
#2 server.php(%d): Fermata\Server->run()
#3 {main}
200 3 4
200 abc
int(0)
bool(true)
-- profile
200 #0 server.php(%d): failing()
#1 [internal function]: %s}()
#2 server.php(%d): Fermata\Server->run()
#3 {main}
200 3 4
200 abc
int(0)
bool(true)
-- coverage
200 #0 server.php(%d): failing()
#1 [internal function]: %s}()
#2 server.php(%d): Fermata\Server->run()
#3 {main}
200 3 4
200 abc
int(0)
bool(true)
-- debug
200 #0 server.php(%d): failing()
#1 [internal function]: %s}()
#2 server.php(%d): Fermata\Server->run()
#3 {main}
200 3 4
200 abc
int(0)
line 3: 6
line 5: 6
line 10: 12
line 11: 12
