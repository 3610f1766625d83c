--TEST--
A stream that handlers share: the next goes on although the last reply of the one before lay in PHP's buffer
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$wait = function (string $file) { for ($i = 0; $i < 5000 && !is_file($file); $i++) { delay(0.002); clearstatcache(); } return is_file($file); };
$ask = fn (string $name) => "*2\r\n\$3\r\nGET\r\n$" . strlen($name) . "\r\n$name\r\n";
/** Replies to the commands of the first handler in one write, while the second queues for the stream. */
$server->get('/start', function () use ($server, $pair, $wait) {
    $server->defer(function () use ($pair, $wait) {
        for ($i = 0; $i < 10; $i++) { fgets($pair[1]); }
        $wait('queues');
        delay(0.01);
        fwrite($pair[1], "+one\r\n+two\r\n");
        for ($i = 0; $i < 5; $i++) { fgets($pair[1]); }
        fwrite($pair[1], "+three\r\n");
    });
    return Response::text('started');
});
$server->get('/first', function () use ($pair, $ask, $wait) {
    fwrite($pair[0], $ask('a') . $ask('b'));
    touch('asked');
    $replies = trim(fgets($pair[0])) . ' ' . trim(fgets($pair[0]));
    return Response::text($replies . ($wait('served') ? ', the other was served' : ', the other still waits'));
});
$server->get('/second', function () use ($pair, $ask) {
    touch('queues');
    fwrite($pair[0], $ask('c'));
    $reply = trim(fgets($pair[0]));
    touch('served');
    return Response::text($reply);
});
PHP);
echo $server->get('/start'), "\n";
($first = $server->connect())->start('GET', '/first');
do { usleep(5000); clearstatcache(); } while (!is_file($server->folder() . '/asked'));
($second = $server->connect())->start('GET', '/second');
echo $first->answer(), "\n", $second->answer(), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 started
200 +one +two, the other was served
200 +three
int(0)
