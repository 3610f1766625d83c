--TEST--
Runtime::hook(): what is on, what is refused
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Hook, Runtime};

require __DIR__ . '/server.inc';

var_dump(Runtime::hooks());
Runtime::hook(Hook::Sleep, Hook::Dns);
Runtime::hook(Hook::Sleep);
echo implode(' ', array_map(fn (Hook $hook) => $hook->name, Runtime::hooks())), "\n";
try {
    Runtime::hook(Hook::Streams, 'Sleep');
} catch (TypeError $e) {
    echo $e->getMessage(), "\n";
}
echo count(Runtime::hooks()), "\n";
Runtime::hook(...Hook::cases());
echo Runtime::hooks()[1]->name, "\n";
ob_start();
(new ReflectionExtension('fermata'))->info();
echo preg_match('/^Sleep => on$/m', ob_get_clean()), "\n";

// Outside a server the functions work as in PHP.
echo sleep(0), usleep(100), var_export(time_nanosleep(0, 1000), true), "\n";
[$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
fwrite($a, "one\n");
echo fgets($b), gethostbyname('127.0.0.1'), ' ', exec('echo two'), "\n";
stream_set_timeout($b, 0, 1000);
var_dump(fgets($b), stream_get_meta_data($b)['timed_out']);

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sleep);
$server->get('/', function () {
    try { Fermata\Runtime::hook(Fermata\Hook::Streams); } catch (Error $e) { return Response::text($e::class . ': ' . $e->getMessage()); }
});
PHP);
echo $server->get('/'), "\n";
var_dump($server->stop());
?>
--EXPECT--
array(0) {
}
Sleep Dns
Fermata\Runtime::hook(): Argument #2 must be of type Fermata\Hook, string given
2
Streams
1
0true
one
127.0.0.1 two
bool(false)
bool(true)
200 Fermata\Exception\MisuseError: hooks are for all workers; call Runtime::hook() before run()
int(0)
