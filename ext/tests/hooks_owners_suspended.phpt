--TEST--
Hooks: what a Fiber of the program's is suspended inside of is refused at once when the handler that began it has ended
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\{Hook, Runtime};
Runtime::hook(...Hook::cases());
$stream = $fiber = null;
$server->get('/suspend/{mode}', function (Request $request) use (&$stream, &$fiber) {
    [$stream, $peer] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $request->route('mode') === 'kept' && Runtime::keepOnCancel($stream);
    fclose($peer);
    // PHP calls the error handler in the middle of the write.
    set_error_handler(function () { Fiber::suspend('suspended'); return true; });
    $fiber = new Fiber(fn () => fwrite($stream, 'x'));
    return Response::text($fiber->start());
});
$server->get('/hold', fn () => delay(600));
$server->get('/next', function () use (&$stream) {
    try { return Response::text(var_export(@fwrite($stream, 'y'), true)); } catch (Throwable $e) { return Response::text($e::class); }
});
$server->get('/resume', function () use (&$fiber) {
    $fiber->resume();
    return Response::text(var_export($fiber->getReturn(), true));
});
PHP, environment: ['FERMATA_SHARED_WAIT_TIMEOUT_MS' => '600000']);
foreach (['owned', 'kept'] as $mode) {
    // The next handler runs on the same fiber, or on another one.
    foreach ([false, true] as $isHeld) {
        echo $server->get("/suspend/$mode"), ' ';
        $held = $server->connect();
        $isHeld && $held->start('GET', '/hold');
        echo $server->get('/next'), ' ', $server->get('/resume'), ' ', $server->get('/next'), "\n";
        $held->cut();
    }
}
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
200 suspended 200 Fermata\Exception\MisuseError 200 false 200 false
200 suspended 200 Fermata\Exception\MisuseError 200 false 200 false
200 suspended 200 Fermata\Exception\MisuseError 200 false 200 false
200 suspended 200 Fermata\Exception\MisuseError 200 false 200 false
int(0)
