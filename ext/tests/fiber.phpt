--TEST--
Fibers in handlers: run to the end, suspended over several requests, and a suspend outside of any
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$fiber = null;
$server->get('/whole', function (Request $r) {
    $fiber = new Fiber(function () use ($r) { $x = Fiber::suspend('a'); return $x . $r->path(); });
    $first = $fiber->start();
    $fiber->resume('b');
    return Response::text($first . $fiber->getReturn());
});
$server->get('/start', function (Request $r) use (&$fiber) {
    $fiber = new Fiber(function () use ($r) { for (;;) { Fiber::suspend($r->path()); } });
    return Response::text($fiber->start());
});
$server->get('/resume', function () use (&$fiber) { return Response::text($fiber->resume()); });
$server->get('/throw', function () { (new Fiber(fn () => throw new Exception('in fiber')))->start(); });
$server->get('/left', function () { $f = new Fiber(function () { try { Fiber::suspend(); } finally { echo "ended\n"; } }); $f->start();
    return Response::text('left'); });
$server->get('/outside', function () { Fiber::suspend(); });
PHP);
foreach (['/whole', '/start', '/resume', '/resume', '/left'] as $target) {
    echo $server->get($target), "\n";
}
echo $server->get('/throw')->status, ' ', $server->get('/outside')->status, "\n";
echo strstr($server->logged('/in fiber/'), 'Exception'), "\n", strstr($server->logged('/outside of/'), 'FiberError'), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECTF--
200 ab/whole
200 /start
200 /start
200 /start
200 left
500 500
Exception: in fiber in server.php:13
FiberError: Cannot suspend outside of%Sfiber in server.php:16
int(0)
ended
