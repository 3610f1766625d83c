--TEST--
Destructors that run when a handler's values are released change nothing of the next handler's, wherever the values were
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
final class Last
{
    public static array $ran = [];
    public static string $handler = ''; // whose code runs
    /** Returns a callable that logs an error if it is called for another handler. */
    public static function own(): Closure
    {
        $mine = self::$handler;
        return fn () => $mine === self::$handler || error_log('CALLED FOR ANOTHER ' . $mine);
    }
    public mixed $more = null;
    public function __construct(private Closure $do) {}
    public function __destruct() { if (self::$handler !== 'end') { self::$ran[] = 1; ($this->do)(); } }
    public function __invoke() { return true; }
}
/** Actions of the destructors: everything that changes the process. */
$do = [
    'values' => function () { date_default_timezone_set('Asia/Tokyo'); chdir('/'); umask(0777); setlocale(LC_ALL, 'C.UTF-8'); ini_set('precision', '3'); putenv('SECRET=alice'); error_reporting(0); },
    'handlers' => function () { set_error_handler(fn () => true); set_exception_handler(fn () => true); register_shutdown_function(Last::own()); @assert_options(ASSERT_CALLBACK, Last::own()); },
    'globals' => function () { $_GET['leak'] = $_SERVER['LEAK'] = $_SESSION['leak'] = 'alice'; },
    'again' => fn () => $_GET['leak'] = new Last(fn () => set_error_handler(new Last(function () { date_default_timezone_set('Asia/Tokyo'); $_POST['leak'] = new Last(fn () => putenv('SECRET=alice')); }))),
    'prints' => function () { ob_start(fn () => ''); echo 'x'; ob_start(); },
    'throws' => fn () => throw new Exception('of a destructor', previous: new Exception()),
    'exits' => fn () => exit(1),
    'waits' => fn () => delay(0.001),
    'context' => fn () => Context::set('leak', 'alice'),
    'fails' => function () { @strpos(); },
];
$for_ever = fn () => $_GET['leak'] = new Last($GLOBALS['for_ever']);
$do['for-ever'] = fn () => ($GLOBALS['for_ever'])();
/** Places of the values with destructors. */
$in = [
    'error-handler' => fn ($r, $last) => set_error_handler($last),
    'error-handlers' => function ($r, $last) { set_error_handler($last); set_error_handler(null); },
    'exception-handler' => fn ($r, $last) => set_exception_handler($last),
    'assert-callback' => fn ($r, $last) => @assert_options(ASSERT_CALLBACK, $last),
    'get' => function ($r, $last) { $_GET['x'] = $last; },
    'session' => function ($r, $last) { $_SESSION['x'] = [$last]; },
    'shutdown' => fn ($r, $last) => register_shutdown_function($last),
    'context' => fn ($r, $last) => Context::set('x', $last),
    'attribute' => fn ($r, $last) => $r->withAttribute('x', $last),
    'buffer' => function ($r, $last) { ob_start(fn ($x) => $last ? '' : $x); },
    'task' => function ($r, $last) { async($last); },
    'awaited-task' => function ($r, $last) { await(async(fn () => $last)); },
    'deferred' => fn ($r, $last) => $GLOBALS['server']->defer($last),
    'thrown' => fn ($r, $last) => throw new class($last) extends Exception { public function __construct(public $last) {} },
    'cycle' => function ($r, $last) { $last->more = $last; unset($last); gc_collect_cycles(); },
    'static' => function ($r, $last) { static $x; $x = $last; $x = null; },
];
foreach ($in as $where => $put) {
    foreach ($do as $what => $does) {
        foreach (['', 'waits before'] as $wait) {
            $server->get('/' . $where . '/' . $what . ($wait ? '/waits' : ''), function (Request $r) use ($put, $does, $wait) {
                Last::$handler = $r->path();
                if ($wait) {
                    delay(0.0001);
                }
                $put($r, new Last($does));
                return Response::text('x');
            });
        }
    }
}
$state = fn () => json_encode([date_default_timezone_get(), getcwd(), umask(), setlocale(LC_ALL, 0), ini_get('precision'), getenv('SECRET'), error_reporting(), $_GET, isset($_SERVER['LEAK']),
    isset($_SESSION), $_POST, ob_get_level(), get_debug_type(set_error_handler(null)), get_debug_type(set_exception_handler(null)), @assert_options(ASSERT_CALLBACK), Context::get('leak')]);
$server->get('/state', function () use ($state) { Last::$handler = 'state'; return Response::text($state()); });
register_shutdown_function(function () { Last::$handler = 'end'; });
$server->get('/ran', function () { $ran = count(Last::$ran); Last::$ran = []; return Response::text("$ran"); });
$server->get('/paths', fn () => Response::text(json_encode(array_map(fn ($where) => array_map(fn ($what) => $where . '/' . $what, array_keys($do)), array_keys($in)))));
PHP, 'workers: 1', ['-dzend.assertions=-1']);
$start = $server->get('/state')->body;
$connection = $server->connect();
foreach (array_merge(...json_decode($server->get('/paths')->body)) as $path) {
    foreach (['', '/waits'] as $wait) {
        $connection->request('GET', "/$path$wait");
        foreach ([1, 2] as $time) {
            $now = $connection->request('GET', '/state')->body;
            if ($now !== $start) {
                echo "$path$wait: $now\n";
            }
        }
        if ($connection->request('GET', '/ran')->body === '0') {
            echo "$path$wait: no destructor was called\n";
        }
    }
}
var_dump($server->stop(), str_contains($server->log(), 'CALLED FOR ANOTHER'), substr_count($server->log(), 'started pid'));
echo $server->logged('~exit code [^0]|signal [0-9]~');
?>
--EXPECT--
int(0)
bool(false)
int(1)
