--TEST--
Hook::Streams: who queues to read a stream gets what the one before has left in PHP's buffer, and what comes after it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Streams);
// Runs a task until it waits.
$begin = function (callable $work) {
    $begun = false;
    $task = async(function () use ($work, &$begun) {
        $begun = true;
        return $work();
    });
    while (!$begun) {
        delay(0.001);
    }
    return $task;
};
$reads = [
    'fread' => fn ($stream) => fread($stream, 100),
    'fgets' => fn ($stream) => fgets($stream),
    'line' => fn ($stream) => stream_get_line($stream, 100, "\n"),
    'getc' => fn ($stream) => fgetc($stream) . fgetc($stream) . fgetc($stream),
    'unbuffered' => function ($stream) { stream_set_read_buffer($stream, 0); return fread($stream, 100); },
    'filtered' => function ($stream) { stream_filter_append($stream, 'string.toupper', STREAM_FILTER_READ); return fread($stream, 4); },
];
// Data for the second task arrives together with that of the first, or later.
$server->get('/{how}/{when}', function (string $how, string $when) use ($begin, $reads) {
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    stream_set_timeout($ours, 60);
    $first = $begin(fn () => fgets($ours));
    $second = $begin(fn () => $reads[$how]($ours));
    $third = $begin(fn () => fgets($ours));
    fwrite($theirs, $when === 'with' ? "first\nabc\n" : "first\n");
    $got = [$first->await()];
    if ($when === 'later') {
        fwrite($theirs, "abc\n");
    }
    $got[] = $second->await();
    fwrite($theirs, "third\n");
    // With a filter, PHP reads until its buffer is full or the stream ends.
    fclose($theirs);
    $got[] = $third->await();
    return Response::json($got);
});
PHP);
foreach (['fread', 'fgets', 'line', 'getc', 'unbuffered', 'filtered'] as $how) {
    foreach (['with', 'later'] as $when) {
        echo "$how $when: ", $server->get("/$how/$when"), "\n";
    }
}
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
fread with: 200 ["first\n","abc\n","third\n"]
fread later: 200 ["first\n","abc\n","third\n"]
fgets with: 200 ["first\n","abc\n","third\n"]
fgets later: 200 ["first\n","abc\n","third\n"]
line with: 200 ["first\n","abc","third\n"]
line later: 200 ["first\n","abc","third\n"]
getc with: 200 ["first\n","abc","\n"]
getc later: 200 ["first\n","abc","\n"]
unbuffered with: 200 ["first\n","abc\n","third\n"]
unbuffered later: 200 ["first\n","abc\n","third\n"]
filtered with: 200 ["first\n","abc\n","THIRD\n"]
filtered later: 200 ["first\n","ABC\n","THIRD\n"]
int(0)
