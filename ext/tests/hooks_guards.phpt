--TEST--
Hooks: what another fiber is inside of is queued for and stays whole
--EXTENSIONS--
fermata
sockets
curl
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$say = function (callable $call): string {
    try { return json_encode($call()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
};
// Starts a task; when this returns, the task waits inside the call.
$begin = function (callable $call) {
    $is_begun = false;
    $task = async(function () use ($call, &$is_begun) {
        $is_begun = true;
        return $call();
    });
    while (!$is_begun) { delay(0.001); }
    return $task;
};
$server->get('/curl', function () use ($say, $begin) {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $curl = curl_init('http://' . stream_socket_get_name($listener, false) . '/');
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_POSTFIELDS => 'of the first']);
    $task = async(fn () => curl_exec($curl));
    $peer = stream_socket_accept($listener, 30);
    $order = [];
    $others = [];
    foreach (['setopt' => fn () => curl_setopt($curl, CURLOPT_POSTFIELDS, 'of another'), 'reset' => fn () => curl_reset($curl)] as $name => $call) {
        $others[] = $begin(function () use ($name, $call, $say, &$order) { $order[] = $name . $say($call); });
    }
    echo count($order), "\n";
    // Refused where PHP cannot wait: in destructors before 8.4.
    echo PHP_VERSION_ID >= 80400 ? 'refused' : preg_replace('/.*PHP cannot wait here.*/', 'refused', $say(function () use ($curl) { new class($curl) { function __construct(public $curl) {} function __destruct() { curl_reset($this->curl); } }; })), "\n";
    $asked = '';
    while (!str_ends_with($asked, 'of the first')) { $asked .= fread($peer, 1000); }
    fwrite($peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody");
    echo await($task), "\n";
    array_map('Fermata\await', $others);
    echo implode(' ', $order), $say(fn () => curl_setopt($curl, CURLOPT_POSTFIELDS, 'mine')), "\n";
    return Response::text('done');
});
$server->get('/multi', function () use ($say, $begin) {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $multi = curl_multi_init();
    $curl = curl_init('http://' . stream_socket_get_name($listener, false) . '/');
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    curl_multi_add_handle($multi, $curl);
    $task = async(function () use ($multi, $curl) {
        do { curl_multi_exec($multi, $running); $running && curl_multi_select($multi, 30); } while ($running);
        return curl_multi_getcontent($curl);
    });
    $peer = stream_socket_accept($listener, 30);
    fread($peer, 1000);
    // Another task's call runs between two calls, and not in the middle of one.
    $other = $begin(fn () => curl_multi_getcontent($curl));
    fwrite($peer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmulti");
    echo await($task), ' ', $say(fn () => await($other)), "\n";
    return Response::text('done');
});
$server->get('/buffer', function () use ($say, $begin) {
    // PHP's buffer contains half a line; another task must neither take it nor move the buffer.
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    fwrite($b, 'half a ');
    $task = $begin(fn () => stream_get_line($a, 1000, "\n"));
    echo $say(fn () => stream_set_chunk_size($a, 1 << 20)), "\n";
    $other = $begin(fn () => fread($a, 1));
    fwrite($b, "line\nand more\n");
    echo await($task), ' ', await($other), fgets($a);
    return Response::text('done');
});
$server->get('/reused', function () use ($begin) {
    // Another socket gets the number of a closed one immediately.
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $old);
    $task = $begin(fn () => var_export(@socket_read($old[0], 100), true));
    socket_close($old[0]);
    unset($old[0]);
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $new);
    socket_write($new[0], 'for others');
    socket_write($new[1], 'for others');
    echo await($task), ' ', socket_read($new[0], 100), ' ', socket_read($new[1], 100), "\n";
    return Response::text('done');
});
$server->get('/write', function () {
    socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
    $task = async(function () use ($pair) { $len = 0; while (($part = socket_read($pair[1], 65536)) !== '') { $len += strlen($part); } return $len; });
    $written = socket_write($pair[0], str_repeat('x', 2_000_000));
    socket_close($pair[0]);
    return Response::text("$written " . await($task));
});
PHP, ini: ['-dextension=curl', '-dextension=sockets']);
foreach (['/curl', '/multi', '/buffer', '/reused', '/write'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECTF--
200 done
200 done
200 done
200 done
200 2000000 2000000
int(0)
0
refused
body
setopttrue resetnulltrue
multi ""
Fermata\Exception\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
half a line and more
false for others for others
