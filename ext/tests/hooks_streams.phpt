--TEST--
Hook::Streams and Hook::StreamSelect: sockets wait without holding the worker, time-outs and non-blocking streams are PHP's
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

// Replies only after `count` connections have sent a line: no handler gets a reply unless all wait at the same time.
$peer = stream_socket_server('tcp://127.0.0.1:0');
$address = stream_socket_get_name($peer, false);
$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Streams, Fermata\Hook::StreamSelect);
$address = getenv('PEER');
$server->get('/line', function (Request $r) use ($address) {
    $stream = stream_socket_client("tcp://$address", $code, $message, 30);
    fwrite($stream, "line {$r->query('n')}\n");
    return Response::text(fgets($stream));
});
$server->get('/url', fn () => Response::text(file_get_contents("http://$address/")));
$server->get('/select', function (Request $r) use ($address) {
    $streams = [stream_socket_client("tcp://$address"), stream_socket_client("tcp://$address")];
    fwrite($streams[1], "line {$r->query('n')}\n");
    $read = $streams; $write = null; $except = null;
    $ready = stream_select($read, $write, $except, 30);
    return Response::text("$ready " . array_key_first($read) . ' ' . fgets(current($read)));
});
$server->get('/timeout', function () use ($address) {
    $stream = stream_socket_client("tcp://$address");
    stream_set_timeout($stream, 0, 20000);
    $line = fgets($stream);
    $read = [$stream]; $write = null; $except = null;
    $ready = stream_select($read, $write, $except, 0, 20000);
    return Response::text(var_export($line, true) . ' ' . var_export(stream_get_meta_data($stream)['timed_out'], true) . " $ready " . count($read));
});
$server->get('/non-blocking', function () use ($address) {
    $stream = stream_socket_client("tcp://$address");
    stream_set_blocking($stream, false);
    return Response::text(var_export(fgets($stream), true) . var_export(fread($stream, 10), true) . var_export(feof($stream), true));
});
$server->get('/refused', function () {
    $dead = stream_socket_server('tcp://127.0.0.1:0');
    $name = stream_socket_get_name($dead, false);
    fclose($dead);
    $stream = @stream_socket_client("tcp://$name", $code, $message, 5);
    return Response::text(var_export($stream, true) . " $message " . var_export(@file_get_contents("http://$name/"), true));
});
$server->get('/pair', function () {
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $task = async(function () use ($b) { $all = ''; while (!feof($b)) { $all .= fread($b, 8192); } return strlen($all); });
    $written = fwrite($a, str_repeat('x', 3_000_000));
    fclose($a);
    return Response::text($written . ' ' . await($task));
});
$server->get('/accept', function () {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $task = async(function () use ($listener) { $s = stream_socket_accept($listener, 30); $line = fgets($s); fwrite($s, "got $line"); return 1; });
    delay(0.001);
    $client = stream_socket_client('tcp://' . stream_socket_get_name($listener, false));
    fwrite($client, "hello\n");
    $line = fgets($client);
    await($task);
    return Response::text($line . var_export(@stream_socket_accept($listener, 0.01), true));
});
$server->get('/unix', function () {
    $path = getcwd() . '/socket';
    $listener = stream_socket_server("unix://$path");
    $task = async(fn () => fgets(stream_socket_accept($listener, 30)));
    $client = stream_socket_client("unix://$path");
    delay(0.001);
    fwrite($client, "over unix\n");
    return Response::text(await($task) . stream_get_meta_data($client)['stream_type']);
});
$server->get('/udp', function () {
    $one = stream_socket_server('udp://127.0.0.1:0', $c, $m, STREAM_SERVER_BIND);
    $task = async(fn () => stream_socket_recvfrom($one, 100));
    delay(0.001);
    $two = stream_socket_client('udp://' . stream_socket_get_name($one, false));
    fwrite($two, 'datagram');
    return Response::text(await($task));
});
PHP, environment: ['PEER' => $address]);
function serve(int $connections, int $count, callable $answer): void
{
    global $peer, $idle;
    $idle = [];
    while (count($idle) < $connections) {
        $idle[] = stream_socket_accept($peer, WAIT_S);
    }
    $waiting = [];
    while (count($waiting) < $count) {
        $read = $idle;
        $write = $except = null;
        stream_select($read, $write, $except, WAIT_S) ?: throw new Exception('nobody asks');
        foreach ($read as $at => $stream) {
            $waiting[] = [$stream, fgets($stream)];
            unset($idle[$at]);
        }
    }
    foreach ($waiting as [$stream, $line]) {
        fwrite($stream, $answer($line));
        fclose($stream);
    }
}
foreach (['/line?n=' => fn ($line) => "answer to $line", '/select?n=' => fn ($line) => "answer to $line",
    '/url?n=' => fn () => "HTTP/1.0 200 OK\r\n\r\nfrom a URL"] as $target => $answer) {
    $clients = [];
    for ($i = 0; $i < 5; $i++) {
        $clients[] = $client = $server->connect();
        $client->start('GET', $target . $i);
    }
    serve(str_starts_with($target, '/select') ? 10 : 5, 5, $answer);
    foreach ($clients as $client) {
        echo trim($client->answer()), "\n";
    }
}
foreach (['/timeout', '/non-blocking', '/refused', '/pair', '/accept', '/unix', '/udp'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 answer to line 0
200 answer to line 1
200 answer to line 2
200 answer to line 3
200 answer to line 4
200 1 1 answer to line 0
200 1 1 answer to line 1
200 1 1 answer to line 2
200 1 1 answer to line 3
200 1 1 answer to line 4
200 from a URL
200 from a URL
200 from a URL
200 from a URL
200 from a URL
200 false true 0 0
200 false''false
200 false Connection refused false
200 3000000 3000000
200 got hello
false
200 over unix
unix_socket
200 datagram
int(0)
