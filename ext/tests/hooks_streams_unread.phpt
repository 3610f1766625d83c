--TEST--
A stream that handlers share: a reply that one has not read never goes to the next
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$pairs = [];
foreach (['lines', 'redis', 'silent'] as $name) { $pairs[$name] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); }
/* fread() returns early if no more bytes are available; since PHP 8.4 it may not even check the socket. */
$bytes = function ($stream, int $len) { for ($bytes = ''; strlen($bytes) < $len && ($more = fread($stream, $len - strlen($bytes))) !== false && $more !== '';) { $bytes .= $more; } return $bytes; };
/** Replies to all input that arrived together, with one write per line or command, after a delay. */
$server->get('/start', function () use ($server, $pairs, $bytes) {
    $server->defer(function () use ($pairs) {
        while (($line = fgets($pairs['lines'][1])) !== false) { delay(0.02); fwrite($pairs['lines'][1], "value of $line"); }
    });
    $server->defer(function () use ($pairs, $bytes) {
        $peer = $pairs['redis'][1];
        while (($line = fgets($peer)) !== false) {
            $words = [];
            for ($left = (int) substr($line, 1); $left > 0; $left--) { $len = (int) substr(fgets($peer), 1); $words[] = substr($bytes($peer, $len + 2), 0, $len); }
            delay(0.02);
            /* In pieces, and with every kind of nested reply. */
            foreach (["*2\r\n$", strlen($words[1]) . "\r\n$words[1]", "\r\n%1\r\n+key\r\n*-", "1\r\n"] as $piece) { fwrite($peer, $piece); delay(0.001); }
        }
    });
    return Response::text('started');
});
$ask = fn (string $name) => "*2\r\n\$3\r\nGET\r\n$" . strlen($name) . "\r\n$name\r\n";
$read = function ($stream) use ($bytes) { fgets($stream); $len = (int) substr(fgets($stream), 1); $value = substr($bytes($stream, $len + 2), 0, $len); fgets($stream); fgets($stream); fgets($stream); return $value; };
$server->get('/lines/{how}/{id}', function (string $how, string $id) use ($pairs) {
    $stream = $pairs['lines'][0];
    if (@fwrite($stream, "$id\n") === false) { return Response::text('broken'); }
    if ($how === 'throws') { throw new LogicException('between a question and its reply'); }
    if ($how === 'returns') { return Response::text('nothing'); }
    return Response::text(trim((string) fgets($stream)) ?: 'broken');
});
$server->get('/redis/{how}/{id}', function (string $how, string $id) use ($pairs, $ask, $read) {
    $stream = $pairs['redis'][0];
    if (@fwrite($stream, $how === 'reads' ? $ask($id) : $ask($id) . $ask("$id-2")) === false) { return Response::text('broken'); }
    $first = $read($stream);
    if ($how === 'waits') { touch('waits'); delay(0.2); return Response::text($first . ' ' . $read($stream)); }
    return Response::text($first ?: 'broken');
});
$server->get('/silent/{how}', function (string $how) use ($pairs) {
    if ($how === 'asks') { fwrite($pairs['silent'][0], "a log line\n"); return Response::text('written'); }
    $how === 'writes' && fwrite($pairs['silent'][0], "a question\n");
    fwrite($pairs['silent'][1], "the reply to it\n");
    return Response::text(fgets($pairs['silent'][0]) === false ? 'its end' : 'the reply of another');
});
PHP);
echo $server->get('/start'), "\n";
echo 'read: ', $server->get('/lines/reads/a'), ', ', $server->get('/lines/reads/b'), "\n";
echo 'thrown: ', $server->get('/lines/throws/c'), ', ', $server->get('/lines/reads/d'), "\n";
echo 'redis: ', $server->get('/redis/reads/a'), ', ', $server->get('/redis/reads/b'), "\n";
($first = $server->connect())->start('GET', '/redis/waits/c');
do { usleep(5000); clearstatcache(); } while (!is_file($server->folder() . '/waits'));
($second = $server->connect())->start('GET', '/redis/reads/d');
echo 'pipeline: ', $first->answer(), ', ', $second->answer(), "\n";
echo 'left: ', $server->get('/redis/leaves/e'), ', ', $server->get('/redis/reads/f'), "\n";
echo 'one way: ', $server->get('/silent/asks'), ', ', $server->get('/silent/asks'), ', ', $server->get('/silent/writes'), "\n";
echo preg_replace('~.*the connection to (?:\S| )*? was shut down: ~m', '', $server->logged('/was shut down/')), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 started
read: 200 value of a, 200 value of b
thrown: 500 The server has failed to answer; its log tells why.
, 200 broken
redis: 200 a, 200 b
pipeline: 200 c c-2, 200 d
left: 200 e, 200 broken
one way: 200 written, 200 written, 200 its end
a handler has ended in the middle of a reply that nobody has read
a handler has ended in the middle of a reply that nobody has read
a handler has ended in the middle of a reply that nobody has read
a handler has ended in the middle of a reply that nobody has read
int(0)
