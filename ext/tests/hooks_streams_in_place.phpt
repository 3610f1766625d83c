--TEST--
A stream that is not blocking and that a library waits for alone: who has asked reads the reply, whoever asks meanwhile
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
stream_set_blocking($pair[0], false);
stream_set_read_buffer($pair[0], 0);
$server->get('/start', function () use ($server, $pair) {
    $server->defer(function () use ($pair) {
        while (($line = fgets($pair[1])) !== false) {
            // Replies in two parts, with a pause before each.
            delay(0.002);
            fwrite($pair[1], 'value of ');
            delay(0.002);
            fwrite($pair[1], $line);
        }
    });
    return Response::text('started');
});
/** Waits like php-amqplib. */
$wait = function (bool $toRead) use ($pair): void {
    $read = $toRead ? [$pair[0]] : null;
    $write = $toRead ? null : [$pair[0]];
    $except = null;
    stream_select($read, $write, $except, $toRead ? 60 : 0, $toRead ? 0 : 100_000);
};
$ask = function (string $id) use ($pair, $wait): string {
    foreach (str_split("$id\n", 2) as $part) {
        $wait(false);
        fwrite($pair[0], $part);
    }
    for ($reply = ''; !str_ends_with($reply, "\n");) {
        $part = fread($pair[0], 4);
        $part === '' ? $wait(true) : $reply .= $part;
    }
    return trim($reply);
};
$server->get('/tasks/{id}', function (string $id) use ($ask) {
    return Response::text(implode(', ', all(...array_map(fn (int $n) => fn () => $ask("$id-$n"), [1, 2, 3, 4]))));
});
$server->get('/ask/{id}', fn (string $id) => Response::text($ask("$id-1") . ', ' . $ask("$id-2")));
// A handler that only waits for writability, and then leaves, releases the stream to the next one.
$server->get('/leave/{id}', function (string $id) use ($pair, $wait) { $wait(false); return Response::text('left'); });
PHP);
echo $server->get('/start'), "\n";
echo $server->get('/tasks/a'), "\n";
$asked = [];
for ($i = 0; $i < 6; $i++) { ($asked[$i] = $server->connect())->start('GET', $i % 2 ? "/tasks/t$i" : "/ask/h$i"); }
foreach ($asked as $one) { echo $one->answer(), "\n"; }
echo $server->get('/leave/b'), "\n";
echo $server->get('/ask/c'), "\n";
var_dump($server->stop());
echo $server->logged('/error|warning .*stream/'), "\n";
?>
--EXPECT--
200 started
200 value of a-1, value of a-2, value of a-3, value of a-4
200 value of h0-1, value of h0-2
200 value of t1-1, value of t1-2, value of t1-3, value of t1-4
200 value of h2-1, value of h2-2
200 value of t3-1, value of t3-2, value of t3-3, value of t3-4
200 value of h4-1, value of h4-2
200 value of t5-1, value of t5-2, value of t5-3, value of t5-4
200 left
200 value of c-1, value of c-2
int(0)
