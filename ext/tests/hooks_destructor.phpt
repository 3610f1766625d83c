--TEST--
Hooked calls in a destructor: they fail at once when the handler was ended, and hold the worker for a second at most otherwise
--EXTENSIONS--
fermata
sockets
--SKIPIF--
<?php
if (PHP_VERSION_ID >= 80400) {
    die('skip destructors may wait');
}
if (getenv('USE_ZEND_ALLOC') === '0') {
    die('skip valgrind 3.19 does not know pidfd_open(), without which processes are waited for as by PHP');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
/** Like clients of mail servers and message brokers: sends a farewell in its destructor and waits for the reply. */
final class Mailer
{
    public function __construct(public $stream, private Closure $goodbye) {}
    public function __destruct() { try { ($this->goodbye)($this->stream); } catch (Throwable $e) { echo $e::class, "\n"; } }
}
$peers = [];
$goodbyes = [
    'read' => function ($stream) { fwrite($stream, "QUIT\n"); fgets($stream); fgets($stream); },
    'select' => function ($stream) { $read = [$stream]; $write = $except = null; @stream_select($read, $write, $except, 60); },
    'socket' => function () { socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair); @socket_read($pair[0], 1); },
    'command' => function () { $p = proc_open('exec sleep 60', [], $pipes); $pid = proc_get_status($p)['pid']; proc_close($p); posix_kill($pid, 9); },
    'pipe' => function () { $p = popen('exec sleep 3', 'r'); fgets($p); },
];
$server->get('/{how}/{name}', function (Request $request) use (&$peers, $goodbyes) {
    [$mine, $peers[]] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $mailer = new Mailer($mine, $goodbyes[$request->route('name')]);
    $begin = microtime(true);
    try {
        if ($request->route('how') === 'ended') {
            timeout(0.01, function () use (&$mailer) { $own = $mailer; $mailer = null; fgets($own->stream); });
        }
        $mailer = null;
    } catch (Fermata\Exception\TimeoutException) {
    }
    $seconds = microtime(true) - $begin;
    return Response::text($seconds < ($request->route('how') === 'ended' ? 0.9 : 20) ? 'in time' : "$seconds seconds");
});
PHP, ini: ['-dextension=sockets', '-dextension=posix', '-dfermata.blocking_call_ms=0']);
foreach (['ended', 'whole'] as $how) {
    foreach (['read', 'select', 'socket', 'command', 'pipe'] as $name) {
        echo "$how $name: ", $server->get("/$how/$name"), "\n";
    }
}
var_dump($server->stop());
echo substr_count($server->logged('/given up after/'), 'given up after'), $server->logged('/error/');
?>
--EXPECT--
ended read: 200 in time
ended select: 200 in time
ended socket: 200 in time
ended command: 200 in time
ended pipe: 200 in time
whole read: 200 in time
whole select: 200 in time
whole socket: 200 in time
whole command: 200 in time
whole pipe: 200 in time
int(0)
5
