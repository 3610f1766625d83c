--TEST--
Revolt's event loop in a worker: handlers suspend, callbacks run, and requests go on meanwhile
--EXTENSIONS--
fermata
posix
--SKIPIF--
<?php
if (!getenv('FERMATA_ROOT') || !getenv('FERMATA_REVOLT')) die('skip scripts/revolt.sh runs it, with a checkout of revoltphp/event-loop');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$root = getenv('FERMATA_ROOT');
$server = new TestServer('putenv("REVOLT_DRIVER_SUPPRESS_ISSUE_10496=1"); require "' . $root . '/php/tests/autoload.php";' . <<<'PHP'

use Revolt\EventLoop;
EventLoop::setDriver(new Fermata\Revolt\Driver());
// Allowed here but not in a worker: there it is logged and has no other effect.
EventLoop::onSignal(SIGTERM, fn () => null);
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
/** Waits in Revolt's loop, wherever it is called. */
function later(float $seconds, mixed $value): mixed {
    $suspension = EventLoop::getSuspension();
    EventLoop::delay($seconds, fn () => $suspension->resume($value));
    return $suspension->suspend();
}
$log = []; $left = 0; $ticks = 0;
$server->get('/wait', function () use (&$left) { try { return Response::text(later(60, 'late')); } finally { $left++; } });
$server->get('/left', function () use (&$left) { return Response::text("$left"); });
$server->get('/slow', function () use (&$log) { $log[] = 'slow begins'; later(0.05, 1); $log[] = 'slow ends'; return Response::text('slow'); });
$server->get('/log', function () use (&$log) { return Response::json($log); });
$server->get('/quick', function () use (&$log) { $log[] = 'quick'; return Response::text('quick'); });
$cases = [
    'delay' => fn () => later(0.005, 'resumed'),
    'at once' => function () { $s = EventLoop::getSuspension(); EventLoop::queue($s->resume(...), 'queued'); return $s->suspend(); },
    'order' => function () { $order = []; $s = EventLoop::getSuspension();
        EventLoop::delay(0.02, function () use (&$order, $s) { $order[] = 3; $s->resume(); }); EventLoop::delay(0.01, function () use (&$order) { $order[] = 2; }); EventLoop::defer(function () use (&$order) { $order[] = 1; });
        $s->suspend(); return $order; },
    'throw' => function () { $s = EventLoop::getSuspension(); EventLoop::delay(0.001, fn () => $s->throw(new DomainException('thrown into it'))); return $s->suspend(); },
    'twice' => function () { $s = EventLoop::getSuspension(); EventLoop::defer(fn () => $s->resume(1)); $a = $s->suspend(); EventLoop::defer(fn () => $s->resume(2)); return [$a, $s->suspend()]; },
    'not suspended' => fn () => EventLoop::getSuspension()->resume(),
    'streams' => function () { [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); stream_set_blocking($a, false); $s = EventLoop::getSuspension(); $got = '';
        EventLoop::onReadable($a, function ($id, $a) use (&$got, $s) { $got .= fread($a, 100); if (str_ends_with($got, '.')) { EventLoop::cancel($id); $s->resume($got); } });
        EventLoop::onWritable($b, function ($id, $b) { EventLoop::cancel($id); fwrite($b, 'over a '); EventLoop::delay(0.005, fn () => fwrite($b, 'socket.') && 0 ?: null); });
        return $s->suspend(); },
    'repeat' => function () { $s = EventLoop::getSuspension(); $n = 0; EventLoop::repeat(0.001, function ($id) use (&$n, $s) { if (++$n === 3) { EventLoop::cancel($id); $s->resume($n); } }); return $s->suspend(); },
    'fibers of the loop' => function () { $s = EventLoop::getSuspension(); $log = [];
        foreach ([3, 1, 2] as $n) { EventLoop::queue(function () use ($n, &$log, $s) { later($n * 0.01, null); $log[] = $n; if ($n === 3) { $s->resume($log); } }); }
        return $s->suspend(); },
    'signal' => function () { $s = EventLoop::getSuspension(); EventLoop::onSignal(SIGUSR2, function ($id, $signal) use ($s) { EventLoop::cancel($id); $s->resume($signal === SIGUSR2); }); EventLoop::delay(0.005, fn () => posix_kill(getmypid(), SIGUSR2) && 0 ?: null); return $s->suspend(); },
    'SIGTERM' => fn () => EventLoop::onSignal(SIGTERM, fn () => null),
    'in time' => fn () => timeout(0.005, fn () => EventLoop::getSuspension()->suspend()),
    'all at once' => fn () => all(fn () => later(0.01, 'a'), fn () => later(0.005, 'b'), fn () => later(0, 'c')),
    'run' => function () { $n = 0; EventLoop::delay(0.005, function () use (&$n) { $n++; }); EventLoop::run(); return $n; },
    'only unreferenced' => function () { $s = EventLoop::getSuspension(); EventLoop::unreference(EventLoop::delay(0.005, fn () => $s->resume('resumed'))); return $s->suspend(); },
    'waits of Fermata beside' => fn () => all(fn () => delay(0.005) ?? 'delay()', fn () => later(0.001, 'later()')),
    'callback throws' => function () { EventLoop::defer(fn () => throw new DomainException('in a callback')); return later(0.005, 'goes on'); },
    'closed before the loop sees it' => function () { [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); $s = EventLoop::getSuspension(); $caught = null;
        EventLoop::setErrorHandler(function ($e) use (&$caught) { EventLoop::setErrorHandler(null); $caught = $e::class; });
        $id = EventLoop::onReadable($a, fn () => null); fclose($a); EventLoop::delay(0.01, fn () => $s->resume(1)); $s->suspend(); EventLoop::cancel($id); return $caught; },
    'closed with two that watch it' => function () { [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); $ids = [EventLoop::onReadable($a, fn () => null), EventLoop::onReadable($a, fn () => null)];
        later(0.005, 1); fclose($a); array_map(EventLoop::cancel(...), $ids); return later(0.001, 'goes on'); },
    'resumed too late' => function () { $caught = null; EventLoop::setErrorHandler(function ($e) use (&$caught) { $caught = $e->getMessage(); }); $s = EventLoop::getSuspension(); EventLoop::delay(0.01, fn () => $s->resume(1));
        try { timeout(0.002, $s->suspend(...)); } catch (Fermata\Exception\TimeoutException) {} later(0.02, 1); EventLoop::setErrorHandler(null); return $caught; },
    'error handler' => function () { $s = EventLoop::getSuspension(); EventLoop::setErrorHandler(function ($e) use ($s) { EventLoop::setErrorHandler(null); $s->resume($e->getMessage()); }); EventLoop::defer(fn () => throw new DomainException('handled')); return $s->suspend(); },
    'for ever' => function () use (&$ticks) { EventLoop::repeat(0.001, function () use (&$ticks) { $ticks++; }); return later(0.01, $ticks) < $ticks; },
];
$server->get('/case/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
PHP, ini: ['-dextension=posix']);
foreach (json_decode($server->get('/')->body) as $case) {
    echo "$case: ", $server->get('/case/' . rawurlencode($case))->body, "\n";
}
// Other clients are served while a handler is suspended.
$slow = $server->connect();
$slow->start('GET', '/slow');
while ($server->get('/log')->body !== '["slow begins"]');
$server->get('/quick');
echo $slow->answer(), ' ', $server->get('/log')->body, "\n";
// A client that leaves ends its handler's wait.
$gone = $server->connect();
$gone->start('GET', '/wait');
$server->get('/quick');
unset($gone);
while ($server->get('/left')->body !== '1');
echo "left\n";
// A timer that never ends does not keep the worker running.
$log = $server->wait('~a task failed and nobody awaited it: (.*)~')[1];
echo preg_replace('~ in /.*~', '', $log), "\n";

var_dump($server->stop());
?>
--EXPECTF--
delay: "resumed"
at once: "queued"
order: [1,2,3]
throw: DomainException: thrown into it
twice: [1,2]
not suspended: Error: Must call suspend() before calling resume() or throw()
streams: "over a socket."
repeat: 3
fibers of the loop: [1,2,3]
signal: true
SIGTERM: Revolt\EventLoop\UnsupportedFeatureException: SIGTERM stops a worker of the server; end what you do in a shutdown function
in time: Fermata\Exception\TimeoutException: the time given to timeout() is over
all at once: ["a","b","c"]
run: 1
only unreferenced: "resumed"
waits of Fermata beside: ["delay()","later()"]
callback throws: "goes on"
closed before the loop sees it: "TypeError"
closed with two that watch it: "goes on"
resumed too late: null
error handler: "handled"
for ever: true
200 slow ["slow begins","quick","slow ends"]
left
Revolt\EventLoop\UncaughtThrowable: %s
int(0)
