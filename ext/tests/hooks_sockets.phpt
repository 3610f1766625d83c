--TEST--
Hook::Sockets: the extension sockets waits without holding the worker
--EXTENSIONS--
fermata
sockets
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sockets);
$listen = function () {
    $listener = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_bind($listener, '127.0.0.1');
    socket_listen($listener);
    socket_getsockname($listener, $address, $port);
    return [$listener, $port];
};
$connect = function (int $port) {
    $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
    socket_connect($socket, '127.0.0.1', $port);
    return $socket;
};
$server->get('/echo', function () use ($listen, $connect) {
    [$listener, $port] = $listen();
    [$read, $line] = all(
        function () use ($listener) { $s = socket_accept($listener); $read = socket_read($s, 100); socket_write($s, strrev($read)); return $read; },
        function () use ($connect, $port) { $s = $connect($port); delay(0.001); socket_write($s, 'abc'); socket_recv($s, $line, 3, MSG_WAITALL); return $line; },
    );
    return Response::text("$read $line");
});
$server->get('/much', function () {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    $task = async(function () use ($pair) { $len = 0; while (($part = socket_read($pair[1], 65536)) !== '') { $len += strlen($part); } return $len; });
    $sent = socket_send($pair[0], str_repeat('x', 2_000_000), 2_000_000, 0);
    socket_close($pair[0]);
    return Response::text("$sent " . await($task));
});
$server->get('/select', function () {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    async(function () use ($pair) { delay(0.005); socket_write($pair[0], 'x'); });
    $read = [$pair[1]]; $write = $except = null;
    $ready = socket_select($read, $write, $except, 30);
    socket_read($pair[1], 1);
    $read = [$pair[1]];
    return Response::text($ready . socket_select($read, $write, $except, 0, 5000) . count($read));
});
$server->get('/timeout', function () {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    socket_set_option($pair[0], SOL_SOCKET, SO_RCVTIMEO, ['sec' => 0, 'usec' => 20000]);
    $read = @socket_read($pair[0], 10);
    $error = socket_strerror(socket_last_error($pair[0]));
    socket_set_nonblock($pair[0]);
    return Response::text(var_export($read, true) . " $error " . var_export(@socket_read($pair[0], 10), true));
});
$server->get('/datagram', function () {
    $one = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
    socket_bind($one, '127.0.0.1');
    socket_getsockname($one, $address, $port);
    $task = async(function () use ($one) { socket_recvfrom($one, $data, 100, 0, $from, $port); return "$data $from"; });
    delay(0.001);
    $two = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
    socket_sendto($two, 'datagram', 8, 0, '127.0.0.1', $port);
    return Response::text(await($task));
});
$server->get('/cut', function () {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    Fermata\Runtime::keepOnCancel($pair[0]);
    try { timeout(0.01, fn () => socket_read($pair[0], 10)); } catch (Fermata\Exception\TimeoutException $e) { echo $e->getMessage(), "\n"; }
    socket_write($pair[1], 'later');
    return Response::text(socket_read($pair[0], 10));
});
$server->get('/closed', function () {
    // Another task closes the socket during the wait.
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    $task = async(fn () => @socket_read($pair[0], 10));
    delay(0.001);
    socket_close($pair[0]);
    return Response::text(var_export(await($task), true));
});
PHP, ini: ['-dextension=sockets']);
foreach (['/echo', '/much', '/select', '/timeout', '/datagram', '/cut', '/closed'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECTF--
200 abc cba
200 2000000 2000000
200 100
200 false Resource temporarily unavailable false
200 datagram 127.0.0.1
200 later
200 false
int(0)
%Athe time given to timeout() is over
