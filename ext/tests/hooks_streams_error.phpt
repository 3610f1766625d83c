--TEST--
A stream that handlers share: one that has thrown leaves no reply to the next, whoever answers for it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
foreach (['two', 'output'] as $name) { $pair[$name] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); }
$server->error(fn (Throwable $error) => Response::text($error->getMessage(), 503));
/* The second reply to a handler arrives after its end. */
$server->get('/start', function () use ($server, $pair) {
    foreach ($pair as [, $peer]) {
        $server->defer(function () use ($peer) {
            while (($line = fgets($peer)) !== false) { delay(0.02); fwrite($peer, "value of $line"); }
        });
    }
    return Response::text('started');
});
$server->get('/two/{id}', function (string $id) use ($pair) {
    @fwrite($pair['two'][0], "{$id}1\n{$id}2\n") ?: throw new RuntimeException('broken');
    fgets($pair['two'][0]);
    throw new RuntimeException('between two replies');
});
$server->get('/output/{id}', fn (string $id) => Response::output(function () use ($pair, $id) {
    @fwrite($pair['output'][0], "{$id}1\n{$id}2\n") ?: throw new RuntimeException('broken');
    echo fgets($pair['output'][0]);
    throw new RuntimeException('between two replies');
}));
$server->get('/one/{which}/{id}', function (string $which, string $id) use ($pair) {
    @fwrite($pair[$which][0], "$id\n") ?: throw new RuntimeException('broken');
    return Response::text(trim(fgets($pair[$which][0])));
});
PHP);
foreach (['/start', '/one/two/a', '/two/b', '/one/two/c', '/one/output/d'] as $target) {
    echo $server->get($target), "\n";
}
($connection = $server->connect())->start('GET', '/output/e');
$connection->head();
echo $connection->until("value of e1\n") === '' ? '' : "printed\n";
$connection->until("\r\n");
var_dump($connection->ended());
echo $server->get('/one/output/f'), "\n";
echo preg_replace('~.*the connection to (?:\S| )*? was shut down: ~m', '', $server->logged('/was shut down/')), "\n";
var_dump($server->stop());
?>
--EXPECTF--
200 started
200 value of a
503 between two replies
503 broken
200 value of d
printed
bool(true)
503 broken
a handler has ended in the middle of %s
a handler has ended in the middle of %s
int(0)
