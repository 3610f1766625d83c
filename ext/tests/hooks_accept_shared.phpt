--TEST--
Hook::Sockets and Hook::Streams: workers that share a listening socket, and handlers that share the pair of a process
--EXTENSIONS--
fermata
sockets
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
// Both workers wait for connections of this socket, and each connection wakes both.
$shared = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
socket_bind($shared, '127.0.0.1');
socket_listen($shared, 100);
socket_getsockname($shared, $host, $port);
$server->get('/port', fn () => Response::text((string) $port));
$server->get('/accept', function () use ($shared) {
    file_put_contents('waiting', getmypid() . "\n", FILE_APPEND);
    do { $accepted = socket_accept($shared); $read = socket_read($accepted, 4); socket_close($accepted); } while ($read !== 'stop');
    return Response::text('stopped');
});
$server->get('/', fn () => Response::text((string) getmypid()));
// The pipe of a command may be a socket pair, which transfers all bytes.
$server->get('/pair', function () {
    $process = proc_open([PHP_BINARY, '-n', '-r', '$in = stream_get_contents(STDIN); echo strlen($in), md5($in);'], [['socket'], ['socket']], $pipes);
    $text = str_repeat('text', 250_000);
    $writer = async(function () use ($pipes, $text) { $len = fwrite($pipes[0], $text); stream_socket_shutdown($pipes[0], STREAM_SHUT_WR); return $len; });
    $out = stream_get_contents($pipes[1]);
    return Response::text(await($writer) . ' ' . var_export($out === strlen($text) . md5($text), true));
});
PHP, 'workers: 2', ini: is_file(ini_get('extension_dir') . '/sockets.so') ? ['-dextension=sockets'] : []);
$port = (int) $server->get('/port')->body;
$waiting = [];
do {
    $waiting[] = $connection = $server->connect();
    $connection->start('GET', '/accept');
    usleep(5000);
    $pids = array_unique(@file($server->folder() . '/waiting') ?: []);
} while (count($pids) < 2 && count($waiting) < 1000);
for ($i = 0; $i < 1000; $i++) {
    $one = stream_socket_client("tcp://127.0.0.1:$port");
    fwrite($one, 'next');
    fclose($one);
}
// Neither worker is blocked.
$seen = [];
do {
    $seen[$server->get('/')->body] = true;
} while (count($seen) < 2);
echo count($pids), ' ', count($seen), "\n";
foreach ($waiting as $_) {
    $ones[] = $one = stream_socket_client("tcp://127.0.0.1:$port");
    fwrite($one, 'stop');
}
$stopped = 0;
foreach ($waiting as $connection) {
    $stopped += (string) $connection->answer() === '200 stopped';
}
var_dump($stopped === count($waiting));
echo $server->get('/pair'), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
2 2
bool(true)
200 1000000 true
int(0)
