--TEST--
Handlers that wait and fail: exceptions, exit(), a fatal error while others wait
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/throw', function () { delay(0.01); throw new LogicException('thrown late'); });
$server->get('/exit', function () { try { delay(0.01); exit(7); } finally { echo "not run\n"; } });
$server->get('/wrong', function () { delay(0.01); return 5; });
$server->get('/fiber', function () { $f = new Fiber(function () { delay(0.01); $x = Fiber::suspend('a'); delay(0.01); return $x; }); $first = $f->start(); $f->resume('b'); return Response::text($first . $f->getReturn()); });
$server->get('/fiber/throws', function () { (new Fiber(function () { delay(0.01); throw new LogicException('in fiber'); }))->start(); });
$server->get('/wait', function () { try { delay(60); } finally { echo "unwound\n"; } return Response::text('never'); });
$server->get('/fatal', function () { delay(0.01); eval('class A { abstract function b(); }'); });
$server->get('/fatal/task', function () { \Fermata\await(async(function () { delay(0.01); eval('class B { abstract function b(); }'); })); });
$server->get('/fatal/fiber', function () { (new Fiber(function () { delay(0.01); eval('class C { abstract function b(); }'); }))->start(); });
PHP, environment: ['VALGRIND_OPTS' => '--leak-check=no']);
foreach (['/throw', '/exit', '/wrong', '/fiber', '/fiber/throws'] as $target) {
    echo $target, ' ', $server->get($target)->status, "\n";
}
foreach (['/fatal', '/fatal/task', '/fatal/fiber'] as $target) {
    $pid = $server->get('/')->body;
    $waiting = [$server->connect(), $server->connect()];
    foreach ($waiting as $connection) {
        $connection->start('GET', '/wait');
    }
    $fatal = $server->connect();
    $fatal->start('GET', $target);
    echo $target, ' ', $fatal->answer()->status, ' ', $waiting[0]->answer()->status, ' ', $waiting[1]->answer()->status, "\n";
    $deadline = microtime(true) + WAIT_S;
    do {
        try {
            $body = $server->get('/')->body;
        } catch (Exception) {
            $body = '';
        }
    } while ((int) $body === 0 && microtime(true) < $deadline);
    var_dump((int) $body > 0 && $body !== $pid);
}
foreach (['/thrown late/', '/exit\(\)/', '/must return/', '/in fiber/', '/abstract/'] as $pattern) {
    echo preg_replace('/^.*?(\[worker 0\] |(?=task: Class))/m', '', $server->logged($pattern)), "\n";
}
var_dump($server->stop(), $server->output());
?>
--EXPECTF--
/throw 500
/exit 500
/wrong 500
/fiber 200
/fiber/throws 500
/fatal 500 503 503
bool(true)
/fatal/task 503 503 503
bool(true)
/fatal/fiber 500 503 503
bool(true)
LogicException: thrown late in server.php:2
exit() called in handler; return a Response to end a request in server.php:3
TypeError: the handler must return Fermata\Response or Fermata\Hold, int returned in server.php:4
LogicException: in fiber in server.php:6
Class A %s in server.php(8) : eval()'d code:1
task: Class B %s in server.php(9) : eval()'d code:1
Class C %s in server.php(10) : eval()'d code:1
int(0)
string(0) ""
