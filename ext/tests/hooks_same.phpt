--TEST--
Results and warnings of hooked functions are those that PHP gives without hooks
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$server->get('/run', function () { ob_start(); include getcwd() . '/calls.php'; restore_error_handler(); return Response::text(ob_get_clean()); });
PHP);
file_put_contents($server->folder() . '/calls.php', <<<'PHP'
<?php
set_error_handler(function ($number, $message) { echo "[$message]\n"; return true; });
foreach (['echo a; exit 3', 'printf "1\n2 \n\n"', 'nowhere-at-all 2>&1', 'kill -TERM $$'] as $command) {
    $lines = $code = null;
    var_dump(exec($command, $lines, $code), $lines, $code, system($command, $code), $code, passthru($command, $code), $code, shell_exec($command));
}
foreach ([fn () => exec(''), fn () => shell_exec(''), fn () => popen('true', 'x'), fn () => sleep(-1), fn () => time_nanosleep(0, -1), function () { $r = []; $w = $e = null; stream_select($r, $w, $e, 1); }] as $call) {
    try { var_dump($call()); } catch (Error $e) { echo $e->getMessage(), "\n"; }
}
$pipe = popen('cat', 'w');
var_dump(fwrite($pipe, ''), pclose($pipe));
$pipe = popen('echo one; echo two; exit 4', 'r');
var_dump(fgets($pipe), stream_get_contents($pipe), feof($pipe), pclose($pipe));
$process = proc_open('exit 6', [], $pipes);
var_dump(proc_close($process));
var_dump(gethostbyname('localhost'), gethostbynamel('localhost'), gethostbyname(str_repeat('x', 300)), gethostbyname(''), gethostbyname('127.0.0.9'));
var_dump(fsockopen('127.0.0.1', 1, $number, $message, 1), $number, $message, file_get_contents('http://127.0.0.1:1/'), stream_socket_client('tcp://256.1.1.1:x'));
[$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
stream_set_timeout($a, 0, 30000);
var_dump(fgets($a), stream_get_meta_data($a), fwrite($b, "x\ny"), fgets($a), fgets($a), stream_get_meta_data($a)['timed_out'], fclose($b), fgets($a), feof($a), fwrite($a, 'z'));
$read = $write = $except = [$a];
var_dump(stream_select($read, $write, $except, 0), stream_select($read, $write, $except, 1), count($read), count($write), count($except));
var_dump(sleep(0), usleep(0), time_nanosleep(0, 1), time_sleep_until(microtime(true) + 0.01), time_sleep_until(1));
$listener = stream_socket_server('tcp://127.0.0.1:0');
var_dump(stream_socket_accept($listener, 0), stream_socket_accept($listener, 0.02));
$client = stream_socket_client('tcp://' . stream_socket_get_name($listener, false));
stream_set_timeout($client, 0, 1000);
var_dump(fread($client, 1), stream_get_meta_data($client)['timed_out'], stream_get_meta_data($client)['stream_type'], fclose($client));
PHP);
ob_start();
chdir($server->folder());
include $server->folder() . '/calls.php';
restore_error_handler();
$plain = ob_get_clean();
$hooked = $server->get('/run')->body;
$same = fn (string $text) => preg_replace('/(resource\(|Resource id #)\d+/', '$1', $text);
if ($same($plain) !== $same($hooked)) {
    echo "WITHOUT\n$plain\nWITH\n$hooked\n", $server->log();
}
echo strlen($plain) > 2000 ? 'compared' : $plain, "\n";
var_dump($server->stop());
?>
--EXPECT--
compared
int(0)
