--TEST--
A stream that handlers share and whose protocol is not known: a conversation that was cut short is not gone on with, whatever the handler makes of it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$pairs = $at = [];
/** Sends two replies to each line, the second one only when it is permitted. */
$server->get('/start/{how}', function (string $how) use ($server, &$pairs, &$at) {
    $pairs[$how] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $server->defer(function () use ($how, &$pairs, &$at) {
        while (($line = fgets($pairs[$how][1])) !== false) {
            fwrite($pairs[$how][1], "first of $line");
            while (!isset($at[$how])) { delay(0.001); }
            @fwrite($pairs[$how][1], "second of $line");
        }
    });
    return Response::text('started');
});
$server->get('/cut/{how}', function (string $how) use (&$pairs, &$at) {
    $talk = function () use (&$pairs, $how) {
        fwrite($pairs[$how][0], "alice\n");
        fgets($pairs[$how][0]);
        touch($how);
        delay($how === 'answers' ? 0 : 60);
    };
    $half = function () use ($how) { do { delay(0.001); clearstatcache(); } while (!is_file($how)); };
    try {
        match ($how) {
            'leaves', 'answers' => $talk(),
            'timeout' => timeout(0.1, $talk),
            'race' => race($talk, $half),
            'task' => (function () use ($talk, $half) { $task = async($talk); $half(); $task->cancel(); try { await($task); } catch (Throwable) {} })(),
        };
    } catch (Throwable) {
    }
    $at[$how] = true;
    return Response::text('caught', $how === 'answers' ? 500 : 200);
});
$server->get('/next/{how}', function (string $how) use (&$pairs, &$at) {
    while (!isset($at[$how])) { delay(0.001); }
    if (@fwrite($pairs[$how][0], "bob\n") === false) { return Response::text('broken'); }
    return Response::text(trim((string) fgets($pairs[$how][0])) ?: 'broken');
});
PHP);
foreach (['leaves', 'timeout', 'race', 'task', 'answers'] as $how) {
    $server->get("/start/$how");
    ($cut = $server->connect())->start('GET', "/cut/$how");
    if ($how === 'leaves') {
        for ($i = 0; $i < WAIT_S * 200 && !is_file($server->folder() . '/leaves'); $i++) { usleep(5000); clearstatcache(); }
        $cut->cut();
    } else {
        $cut->answer();
    }
    echo "$how: ", $server->get("/next/$how"), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
leaves: 200 broken
timeout: 200 broken
race: 200 broken
task: 200 broken
answers: 200 broken
int(0)
