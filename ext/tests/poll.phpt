--TEST--
Poll: streams, files, signals, a time; in a handler others go on, outside of a server it waits alone
--EXTENSIONS--
fermata
posix
--FILE--
<?php
require __DIR__ . '/server.inc';

$source = <<<'PHP'
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
function pair(): array { return stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); }
/** Numbers of resources differ from run to run. */
function named(array $found, $a, $b = null): array { $names = [(int) $a => 'a'] + ($b ? [(int) $b => 'b'] : []); $streams = []; foreach ($found[0] as $n => $ready) { $streams[$names[$n]] = $ready; } ksort($streams); return [$streams, $found[1]]; }
$cases = [
    'nothing' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); return [named($p->wait(0), $a), named($p->wait(0.005), $a)]; },
    'readable' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); fwrite($b, 'x'); return [named($p->wait(), $a), named($p->wait(0), $a), fread($a, 1), named($p->wait(0), $a)]; },
    'writable' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, false, true); $p->watch($b, true, true); fwrite($a, 'x'); return named($p->wait(), $a, $b); },
    'changed' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, true); $p->watch($a, true, false); $first = $p->wait(0); $p->watch($a, false, true); return [$first, named($p->wait(0), $a)]; },
    'no more' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); fwrite($b, 'x'); $p->watch($a, true, false); $p->watch($a, false, false); $p->watch($a, false, false); return $p->wait(0); },
    'hang up' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); fclose($b); return named($p->wait(), $a); },
    'closed' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); fwrite($b, 'x'); fclose($a); return $p->wait(0); },
    'number used again' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); fclose($a); [$c, $d] = pair(); $p->watch($c, true, false); fwrite($d, 'x'); return named($p->wait(1), $c); },
    'closed, its number used again, then no more' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); fclose($a); [$c, $d] = pair(); $p->watch($c, true, false); $p->watch($a, false, false); fwrite($d, 'x'); return named($p->wait(1), $c); },
    'file' => function () { $p = new Fermata\Poll; $f = tmpfile(); $p->watch($f, true, true); return [named($p->wait(), $f), named($p->wait(60), $f), $p->watch($f, false, false), $p->wait(0)]; },
    'memory' => function () { $p = new Fermata\Poll; $p->watch(fopen('php://memory', 'r'), true, false); },
    'no stream' => function () { (new Fermata\Poll)->watch(stream_context_create(), true, false); },
    'signal' => function () { $p = new Fermata\Poll; $p->signal(SIGUSR2, true); posix_kill(getmypid(), SIGUSR2); $first = $p->wait(); posix_kill(getmypid(), SIGUSR2); posix_kill(getmypid(), SIGUSR2); $second = $p->wait(1); $p->signal(SIGUSR2, false); return [$first, $second, $p->wait(0)]; },
    'signal of two' => function () { $p = new Fermata\Poll; $q = new Fermata\Poll; $p->signal(SIGUSR2, true); $q->signal(SIGWINCH, true); posix_kill(getmypid(), SIGWINCH); posix_kill(getmypid(), SIGUSR2); return [$p->wait(1)[1], $q->wait(1)[1]]; },
    'no signal' => fn () => (new Fermata\Poll)->signal(0, true),
    'SIGKILL' => fn () => (new Fermata\Poll)->signal(SIGKILL, true),
    'wake' => function () { $p = new Fermata\Poll; [$a, $b] = pair(); $p->watch($a, true, false); $p->wake(); $p->wake(); return [$p->wait(), $p->wait(0.001)]; },
    'wrong time' => fn () => (new Fermata\Poll)->wait(-1.0),
];
PHP;
eval($source);
foreach ($cases as $name => $case) {
    $outside[$name] = shown($case);
    echo "$name: {$outside[$name]}\n";
}
$server = new TestServer(<<<'PHP'
require 'cases.php';
$server->get('/case/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/sigterm', fn () => Response::text(shown(fn () => (new Fermata\Poll)->signal(SIGTERM, true))));
$waits = null;
$server->get('/wait', function () use (&$waits) { $waits = new Fermata\Poll; $waits->wait(60); return Response::text('woken'); });
$server->get('/twice', fn () => Response::text(shown(fn () => $waits->wait(1))));
$server->get('/wake', function () use (&$waits) { $was = $waits !== null; $waits?->wake(); return Response::text($was ? 'yes' : 'not yet'); });
$server->get('/in', fn () => Response::text(json_encode(Fermata\Poll::inHandler())));
$server->get('/time', fn () => Response::text(shown(fn () => timeout(0.005, fn () => (new Fermata\Poll)->wait()))));
$background = new Fermata\Poll;
$server->get('/background', function () use (&$background) { async(fn () => shield(fn () => $background->wait(background: true))); delay(0.001); return Response::text('begun'); });
PHP, ini: ['-dextension=posix', '-dinclude_path=' . (function () use ($source) { $folder = sys_get_temp_dir() . '/fermata-poll-' . getmypid(); mkdir($folder); file_put_contents("$folder/cases.php", "<?php $source"); register_shutdown_function(function () use ($folder) { unlink("$folder/cases.php"); rmdir($folder); }); return $folder; })()]);
foreach ($outside as $name => $result) {
    $inside = $server->get('/case/' . rawurlencode($name))->body;
    echo $inside === $result ? '' : "$name in a handler: $inside\n";
}
foreach (['/sigterm', '/in', '/time'] as $target) {
    echo "$target ", $server->get($target)->body, "\n";
}
$client = $server->connect();
$client->start('GET', '/wait');
while ($server->get('/wake')->body !== 'yes');
echo $client->answer(), "\n";
var_dump(Fermata\Poll::inHandler());
// A worker that stops does not wait for the poll, and logs nothing about it.
echo $server->get('/background'), "\n";
var_dump($server->stop());
?>
--EXPECT--
nothing: [[[],[]],[[],[]]]
readable: [[{"a":1},[]],[{"a":1},[]],"x",[[],[]]]
writable: [{"a":2,"b":3},[]]
changed: [[[],[]],[{"a":2},[]]]
no more: [[],[]]
hang up: [{"a":1},[]]
closed: [[],[]]
number used again: [{"a":1},[]]
closed, its number used again, then no more: [{"a":1},[]]
file: [[{"a":3},[]],[{"a":3},[]],null,[[],[]]]
memory: Fermata\Exception\MisuseError: the stream has no descriptor that could be waited for
no stream: TypeError: Fermata\Poll::watch(): supplied resource is not a valid stream resource
signal: [[[],[12]],[[],[12]],[[],[]]]
signal of two: [[12],[28]]
no signal: Fermata\Exception\MisuseError: signal 0 cannot be waited for
SIGKILL: Fermata\Exception\MisuseError: signal 9 cannot be waited for
wake: [[[],[]],[[],[]]]
wrong time: Fermata\Exception\MisuseError: a time to wait must be 0 or more seconds, not -1
/sigterm Fermata\Exception\MisuseError: SIGTERM stops a worker of a server and cannot be waited for in it
/in true
/time Fermata\Exception\TimeoutException: the time given to timeout() is over
200 woken
bool(false)
200 begun
int(0)
