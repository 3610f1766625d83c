--TEST--
what a handler changes of PHP's state is gone for the next one, and for those that run while it waits
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
date_default_timezone_set('Europe/Rome');
$base = ini_get('precision');
set_error_handler(fn ($level, $message) => !($GLOBALS['seen'][] = "script: $message"));
// Not every PHP has this extension.
$libxml = function_exists('libxml_use_internal_errors') ? libxml_use_internal_errors(...) : fn () => null;
$state = fn () => [
    date_default_timezone_get(), basename(getcwd()) === basename(__DIR__), umask(), setlocale(LC_ALL, 0), ini_get('precision') === $base,
    ini_get('user_agent'), error_reporting(), getenv('FERMATA_TEST_NAME'), $libxml(), get_include_path(), gc_enabled(),
    $_GET, $_POST, $_COOKIE, $_FILES, $_SERVER['HTTP_HOST'] ?? 'none', isset($_SESSION), $_SESSION['user'] ?? 'nobody',
];
$change = function () use ($libxml) {
    date_default_timezone_set('Asia/Tokyo');
    chdir('/');
    umask(0o177);
    setlocale(LC_ALL, 'C.UTF-8');
    ini_set('precision', '3');
    ini_set('user_agent', 'alice');
    error_reporting(E_ERROR);
    putenv('FERMATA_TEST_NAME=alice');
    $libxml(true);
    set_include_path('/alice');
    gc_disable();
    $_GET['a'] = $_POST['a'] = $_COOKIE['a'] = $_FILES['a'] = 'alice';
    $_SERVER['HTTP_HOST'] = 'alice.example';
    $_SESSION = ['user' => 'alice'];
};
$server->get('/state', fn () => Response::json($state()));
$server->get('/change', function () use ($change, $state) { $change(); return Response::json($state()); });
$server->get('/wait', function () use ($change, $state) {
    $change();
    $before = $state();
    delay(0.5);
    return Response::text($state() === $before ? 'kept its own' : json_encode([$before, $state()]));
});
$server->get('/throw', function () use ($change) { $change(); throw new Exception('thrown'); });
$server->get('/error-handler', function () {
    set_error_handler(fn ($level, $message) => !($GLOBALS['seen'][] = "alice: $message"));
    set_error_handler(fn ($level, $message) => !($GLOBALS['seen'][] = "alice twice: $message"));
    trigger_error('first', E_USER_NOTICE);
    restore_error_handler();
    trigger_error('second', E_USER_NOTICE);
    restore_error_handler();
    trigger_error('third', E_USER_NOTICE);
    restore_error_handler();
    return Response::accepted();
});
$server->get('/seen', function () { @trigger_error('last', E_USER_NOTICE); return Response::json($GLOBALS['seen']); });
$server->get('/shutdown', function () {
    register_shutdown_function(function (string $name) {
        $GLOBALS['seen'][] = "shutdown of $name";
        register_shutdown_function(function () { $GLOBALS['seen'][] = 'shutdown of a shutdown'; });
    }, 'alice');
    return Response::text((string) count($GLOBALS['seen'] ?? []));
});
$server->get('/seeded', function () { mt_srand(1); return Response::text((string) mt_rand()); });
$server->get('/random', fn () => Response::text((string) mt_rand()));
PHP);
$first = (string) $server->get('/state');
$changed = (string) $server->get('/change');
var_dump($changed === $first);
var_dump((string) $server->get('/state') === $first);
echo $server->get('/throw')->status, "\n";
var_dump((string) $server->get('/state') === $first);

$waiting = $server->connect();
$waiting->start('GET', '/wait');
usleep(100_000);
for ($i = 0, $same = true; $i < 3; $i++) {
    $same = $same && (string) $server->get('/state') === $first;
}
var_dump($same);
echo $waiting->answer(), "\n";
var_dump((string) $server->get('/state') === $first);

$server->get('/error-handler');
$server->get('/shutdown');
echo $server->get('/seen'), "\n";
$server->get('/seeded');
mt_srand(1);
mt_rand();
var_dump($server->get('/random')->body !== (string) mt_rand());
?>
--EXPECT--
bool(false)
bool(true)
500
bool(true)
bool(true)
200 kept its own
bool(true)
200 ["alice twice: first","alice: second","script: third","shutdown of alice","shutdown of a shutdown","script: last"]
bool(true)
