--TEST--
Hook::Sockets and Hook::Streams: a command has no connection of the worker's that it was not given
--EXTENSIONS--
fermata
sockets
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
// Returns a connected pair. The first end is closed while a command runs, and the other end must detect that.
$pair = function (string $address): array {
    @unlink('unix');
    $listener = stream_socket_server($address);
    $name = stream_socket_get_name($listener, false);
    $client = stream_socket_client(str_starts_with($address, 'tcp') ? "tcp://$name" : $address);
    return [$client, stream_socket_accept($listener)];
};
$pairs = [
    'tcp' => fn () => $pair('tcp://127.0.0.1:0'),
    'unix' => fn () => $pair('unix://unix'),
    'accepted' => fn () => array_reverse($pair('tcp://127.0.0.1:0')),
    'sockets' => function () {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $socket = socket_create(AF_INET, SOCK_STREAM, SOL_TCP);
        socket_connect($socket, '127.0.0.1', (int) substr(strrchr(stream_socket_get_name($listener, false), ':'), 1));
        return [$socket, stream_socket_accept($listener)];
    },
];
$commands = [
    'proc_open' => function () {
        $process = proc_open(['cat'], [['pipe', 'r']], $pipes);
        return fn () => [$process, $pipes];
    },
    'popen' => function () {
        $command = popen('cat', 'w');
        return fn () => $command;
    },
];
$server->get('/closed', function () use ($pairs, $commands) {
    $ended = [];
    foreach ($pairs as $kind => $open) {
        foreach ($commands as $name => $start) {
            [$one, $other] = $open();
            $runs = $start();
            $one instanceof Socket ? socket_close($one) : fclose($one);
            stream_set_timeout($other, 2);
            $ended["$kind $name"] = [fgets($other), feof($other)];
            unset($runs);
        }
    }
    return Response::text(json_encode(array_filter($ended, fn ($found) => $found !== [false, true])) . ' of ' . count($ended));
});
// A command has the descriptors that it was given.
$server->get('/given', function () use ($pair) {
    [$one, $other] = $pair('tcp://127.0.0.1:0');
    $process = proc_open('echo given >&5', [5 => $one], $pipes);
    return Response::text(fgets($other) . proc_close($process));
});
PHP, ini: is_file(ini_get('extension_dir') . '/sockets.so') ? ['-dextension=sockets'] : []);
echo $server->get('/closed'), "\n", $server->get('/given'), "\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
200 [] of 8
200 given
0
int(0)
