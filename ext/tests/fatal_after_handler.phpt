--TEST--
A fatal error in code that runs after a handler has returned, while another handler waits, is logged and replaces the worker
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip the limit is the Zend allocator\'s');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
class Late { public ?Late $other = null; public function __destruct() { str_repeat('x', 1 << 30); } }
$late = fn () => new Late;
$x = fn () => Response::text('x');
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/wait', function () { delay(60); });
$server->get('/attribute', function ($r) use ($late, $x) { $r->withAttribute('x', $late()); return $x(); });
$server->get('/context', function () use ($late, $x) { Context::set('x', $late()); return $x(); });
$server->get('/waited', function () use ($late, $x) { Context::set('x', $late()); delay(0.001); return $x(); });
$server->get('/session', function () use ($late, $x) { $_SESSION['x'] = $late(); return $x(); });
$server->get('/get', function () use ($late, $x) { $_GET['x'] = [$late()]; return $x(); });
$server->get('/error', function () use ($late, $x) { $d = $late(); set_error_handler(function () use ($d) {}); return $x(); });
$server->get('/exception', function () use ($late, $x) { $d = $late(); set_exception_handler(function () use ($d) {}); return $x(); });
$server->get('/shutdown', function () use ($late, $x) { register_shutdown_function(function () use ($late) { str_repeat('x', 1 << 30); }); return $x(); });
$server->get('/argument', function () use ($late, $x) { register_shutdown_function(function ($d) { }, $late()); return $x(); });
$server->get('/buffer', function () use ($x) { ob_start(fn () => str_repeat('x', 1 << 30)); echo 'x'; return $x(); });
$server->get('/task', function () use ($late, $x) { $d = $late(); async(function () use ($d) { }); unset($d); return $x(); });
$server->get('/result', function () use ($late, $x) { async($late); return $x(); });
$server->get('/defer', function () use ($late, $x, $server) { $server->defer($late); return $x(); });
$server->get('/queue', function () use ($late, $x) { $d = $late(); $m = new Fermata\Sync\Queue(1); $m->push($d); unset($d); return $x(); });
$server->get('/thrown', function () use ($late) { throw new Exception(previous: new class($late()) extends Exception { public function __construct(public $d) {} }); });
$server->get('/cycle', function () use ($late, $x) { $d = $late(); $d->other = $d; unset($d); gc_collect_cycles(); return $x(); });
$server->get('/generator', function () { return Response::stream((function () { try { yield 'x'; } finally { str_repeat('x', 1 << 30); } })()); });
PHP, ini: ['-dmemory_limit=24M']);
foreach (['attribute', 'context', 'waited', 'session', 'get', 'error', 'exception', 'shutdown', 'argument', 'buffer', 'task', 'result', 'defer',
    'queue', 'thrown', 'cycle', 'generator'] as $i => $way) {
    $pid = $server->get('/')->body;
    $waiting = $server->connect();
    $waiting->start('GET', '/wait');
    // The request gets a response, is cut off, or is refused by the stopping worker.
    try {
        $server->get("/$way");
    } catch (Exception) {
    }
    $others = $waiting->answer()->status;
    $server->wait('~Allowed memory size~', $i + 1);
    $deadline = microtime(true) + WAIT_S;
    do {
        try {
            $body = $server->get('/')->body;
        } catch (Exception) {
            $body = '';
        }
    } while (((int) $body === 0 || $body === $pid) && microtime(true) < $deadline);
    if ($others !== 503 || (int) $body === 0 || $body === $pid) {
        echo "$way: $others, $pid, $body\n";
    }
}
var_dump($server->stop());
?>
--EXPECT--
int(0)
