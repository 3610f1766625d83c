--TEST--
Handlers under opcache and its JIT
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip memcheck and machine code made at run time do not mix');
require __DIR__ . '/jit.inc';
if (!JIT_WORKS) die("skip this PHP's JIT crashes, without the extension, too");
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$opcache = PHP_VERSION_ID < 80500 ? ['-dzend_extension=opcache'] : [];
$server = new TestServer(<<<'PHP'
$server->get('/sum/{n}', function (Request $r) {
    $sum = 0;
    for ($i = 0; $i < (int) $r->route('n'); $i++) { $sum += $i % 7; }
    return Response::json(['sum' => $sum]);
});
$server->get('/throw', fn () => throw new Exception('thrown'));
$server->get('/exit', function () { exit; });
$server->get('/status', fn () => Response::json(opcache_get_status(false)['jit']['on'] ?? null));
PHP, ini: [...$opcache, '-dopcache.enable_cli=1', '-dopcache.jit=tracing', '-dopcache.jit_buffer_size=32M', '-dopcache.jit_hot_func=2', '-dopcache.jit_hot_loop=2']);
$connection = $server->connect();
for ($i = 0; $i < 500; $i++) {
    $answer = (string) $connection->request('GET', '/sum/50');
    $thrown = $connection->request('GET', '/throw')->status;
    $exited = $connection->request('GET', '/exit')->status;
    if ($answer !== '200 {"sum":147}' || $thrown !== 500 || $exited !== 500) {
        echo "$i: $answer $thrown $exited\n";
        break;
    }
}
echo $answer, "\n", $connection->request('GET', '/status'), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 {"sum":147}
200 true
int(0)
