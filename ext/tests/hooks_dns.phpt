--TEST--
Hook::Dns: names are asked for in threads, with PHP's results
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Dns, Fermata\Hook::Streams);
$listener = stream_socket_server('tcp://127.0.0.1:0');
$port = explode(':', stream_socket_get_name($listener, false))[1];
$before = gethostbynamel('localhost');
$server->get('/localhost', function () use ($before) {
    $threads = fn () => count(scandir('/proc/self/task')) - 2;
    echo 'threads ', $threads(), "\n";
    $found = gethostbyname('localhost');
    echo 'threads ', $threads(), "\n";
    return Response::text($found . var_export(gethostbynamel('localhost') === $before, true) . gethostbyname('127.0.0.2'));
});
$server->get('/unknown', fn () => Response::text(gethostbyname('no-such-host.invalid') . var_export(gethostbynamel('no-such-host.invalid'), true)));
$server->get('/connect', function () use ($port) {
    $stream = stream_socket_client("tcp://localhost:$port", $code, $message, 5);
    $none = @stream_socket_client("tcp://no-such-host.invalid:$port", $code, $message, 5);
    return Response::text(var_export(is_resource($stream), true) . var_export($none, true) . " $message");
});
$server->get('/many', function () {
    $found = all(...array_fill(0, 20, fn () => gethostbyname('localhost')));
    return Response::text(implode(array_unique($found)) . count($found) . ' in ' . (count(scandir('/proc/self/task')) - 3) . ' threads at most');
});
$server->get('/cut', function () {
    $task = async(function () use (&$task) { $task->cancel(); return gethostbyname('localhost'); });
    try { await($task); } catch (Fermata\Exception\CancelledException $e) { return Response::text($e->getMessage()); }
});
PHP);
foreach (['/localhost', '/unknown', '/connect', '/cut'] as $target) {
    echo $server->get($target), "\n";
}
echo preg_replace('/in [1-4] threads/', 'in 1 to 4 threads', $server->get('/many')), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECTF--
200 127.0.0.1true127.0.0.2
200 no-such-host.invalidfalse
200 truefalse php_network_getaddresses: getaddrinfo for no-such-host.invalid failed: %s
200 the task was cancelled
200 127.0.0.120 in 1 to 4 threads at most
int(0)
threads 1
threads 2
