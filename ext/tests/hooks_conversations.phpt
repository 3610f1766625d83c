--TEST--
A connection whose wait was ended is shut down: nobody gets the reply of another; what is no conversation goes on
--EXTENSIONS--
fermata
sockets
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Exception\TimeoutException;

Fermata\Runtime::hook(...Fermata\Hook::cases());
$ended = function (callable $call): string {
    try { timeout(0.01, $call); } catch (TimeoutException) { return 'ended'; }
    return 'not ended';
};
$pair = fn () => stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
/** What the next user of the connection gets: nothing of the first one's reply. */
$next = fn ($mine, $peer) => var_export(@fwrite($mine, "next\n"), true) . ' ' . var_export(@fgets($mine), true);
$server->get('/read', function () use ($ended, $pair, $next) {
    [$mine, $peer] = $pair();
    $told = $ended(function () use ($mine) { fwrite($mine, "get\n"); fgets($mine); });
    @fwrite($peer, "late\n");
    return Response::text($told . ' ' . $next($mine, $peer));
});
$server->get('/partly', function () use ($ended, $pair, $next) {
    [$mine, $peer] = $pair();
    fwrite($peer, "head\nbo");
    $told = $ended(function () use ($mine) { fwrite($mine, "get\n"); fgets($mine); fread($mine, 2); fgets($mine); });
    return Response::text($told . ' ' . $next($mine, $peer));
});
$server->get('/between', function () use ($ended, $pair, $next) {
    [$mine, $peer] = $pair();
    $told = $ended(function () use ($mine) { fwrite($mine, "get\n"); delay(60); });
    @fwrite($peer, "late\n");
    return Response::text($told . ' ' . $next($mine, $peer));
});
$server->get('/unread', function () use ($ended, $pair, $next) {
    [$mine, $peer] = $pair();
    fwrite($peer, "one\ntwo\n");
    $told = $ended(function () use ($mine) { fwrite($mine, "get two\n"); fgets($mine); delay(60); });
    return Response::text($told . ' ' . $next($mine, $peer));
});
$server->get('/written', function () use ($ended, $pair) {
    [$mine, $peer] = $pair();
    $told = $ended(fn () => fwrite($mine, str_repeat('x', 3_000_000)));
    stream_set_blocking($peer, false);
    stream_get_contents($peer);
    return Response::text($told . ' ' . var_export(feof($peer), true));
});
$server->get('/select', function () use ($ended, $pair, $next) {
    [$mine, $peer] = $pair();
    fwrite($mine, "get\n");
    $told = $ended(function () use ($mine) { $read = [$mine]; $write = $except = null; stream_select($read, $write, $except, 60); });
    @fwrite($peer, "late\n");
    return Response::text($told . ' ' . $next($mine, $peer));
});
$server->get('/socket', function () use ($ended) {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $a);
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $b);
    $told = $ended(function () use ($a) { socket_write($a[0], 'get'); socket_read($a[0], 10); })
        . $ended(function () use ($b) { socket_write($b[0], 'get'); delay(60); });
    return Response::text($told . var_export(@socket_write($a[1], 'late'), true) . var_export(@socket_write($b[1], 'late'), true)
        . var_export(socket_read($a[0], 10), true) . var_export(socket_read($b[0], 10), true));
});
$server->get('/task', function () use ($pair, $next) {
    [$mine, $peer] = $pair();
    $first = Fermata\race(function () use ($mine) { fwrite($mine, "get\n"); return fgets($mine); }, fn () => 'first');
    delay(0.001);
    @fwrite($peer, "late\n");
    return Response::text($first . ' ' . $next($mine, $peer));
});
// Conversations that continue.
$server->get('/complete', function () use ($ended, $pair) {
    [$mine, $peer] = $pair();
    fwrite($peer, "got\n");
    $told = $ended(function () use ($mine) { fwrite($mine, "get\n"); fgets($mine); delay(60); });
    fwrite($peer, "next\n");
    return Response::text($told . ' ' . fgets($mine));
});
$server->get('/outside', function () use ($ended, $pair) {
    [$mine, $peer] = $pair();
    fwrite($mine, "get\n");
    $told = $ended(fn () => delay(60));
    fwrite($peer, "got\n");
    return Response::text($told . ' ' . fgets($mine));
});
$server->get('/listener', function () use ($ended) {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $told = $ended(fn () => stream_socket_accept($listener, 60)) . $ended(function () use ($listener) {
        $read = [$listener]; $write = $except = null; stream_select($read, $write, $except, 60);
    });
    $client = stream_socket_client('tcp://' . stream_socket_get_name($listener, false));
    return Response::text($told . ' ' . (stream_socket_accept($listener, 5) ? 'accepted' : 'refused'));
});
$server->get('/datagram', function () use ($ended) {
    $any = stream_socket_server('udp://127.0.0.1:0', $code, $message, STREAM_SERVER_BIND);
    $told = $ended(fn () => stream_socket_recvfrom($any, 100));
    $log = stream_socket_client('udp://' . stream_socket_get_name($any, false));
    fwrite($log, 'one');
    $told .= $ended(fn () => delay(60));
    fwrite($log, 'two');
    return Response::text($told . ' ' . stream_socket_recvfrom($any, 100) . ' ' . stream_socket_recvfrom($any, 100));
});
$server->get('/pipe', function () use ($ended) {
    $process = proc_open(['cat'], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    $told = $ended(function () use ($pipes) { fgets($pipes[1]); });
    fwrite($pipes[0], "through\n");
    return Response::text($told . ' ' . fgets($pipes[1]));
});
$server->get('/kept', function () use ($ended, $pair) {
    [$mine, $peer] = $pair();
    Fermata\Runtime::keepOnCancel($mine);
    $told = $ended(fn () => fgets($mine)) . $ended(function () use ($mine) { fwrite($mine, 'x'); delay(60); });
    fwrite($peer, "still\n");
    return Response::text($told . ' ' . fgets($mine));
});
$server->get('/wrong', function () {
    try { Fermata\Runtime::keepOnCancel('connection'); } catch (TypeError $e) { return Response::text($e->getMessage()); }
});
// A stream that the script keeps: the log names the handler that lost it, once.
[$kept, $peer] = $pair();
$server->get('/keeper', function () use ($ended, $kept) {
    return Response::text($ended(fn () => fgets($kept)) . $ended(fn () => fgets($kept)));
});
PHP, ini: ['-dextension=sockets']);
foreach (['read', 'partly', 'between', 'unread', 'written', 'select', 'socket', 'task', 'complete', 'outside', 'listener', 'datagram',
    'pipe', 'kept', 'wrong', 'keeper'] as $name) {
    echo $name, ': ', trim((string) $server->get("/$name")), "\n";
}
var_dump($server->stop());
echo preg_replace('/.*(the connection to )(\S+ \d+)( was shut down: a wait of )/', '$1DESCRIPTOR$3', trim($server->logged('/shut down/'))), "\n", $server->logged('/error/');
?>
--EXPECTF--
read: 200 ended false false
partly: 200 ended false false
between: 200 ended false false
unread: 200 ended false false
written: 200 ended true
select: 200 ended false false
socket: 200 endedendedfalsefalse''''
task: 200 first false false
complete: 200 ended next
outside: 200 ended got
listener: 200 endedended accepted
datagram: 200 endedended one two
pipe: 200 ended through
kept: 200 endedended still
wrong: 200 Fermata\Runtime::keepOnCancel(): Argument #1 ($connection) must be an open stream over a socket, or a Socket, string given
keeper: 200 endednot ended
int(0)
the connection to DESCRIPTOR was shut down: a wait of GET /keeper was ended in %s:%d before the reply was read, which the next use would have taken for its own
