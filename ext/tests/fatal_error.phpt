--TEST--
A fatal error: 500 and one log line; other clients are finished, the worker is replaced
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/events', fn () => Hold::sse('room')->with(new Event('hello')));
$server->get('/fatal', function () {
    eval('class A { abstract function b(); }');
});
PHP, environment: ['VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
$pid = $server->get('/')->body;
$held = $server->connect();
$held->start('GET', '/events');
echo $held->head()[0], ' ', $held->event(), "\n";

$both = $server->connect();
$both->start('GET', '/');
$both->start('GET', '/fatal');
echo $both->answer()->status, ' ', $both->answer()->status, "\n";
var_dump($held->event());

$deadline = microtime(true) + WAIT_S;
do {
    try {
        $body = $server->get('/')->body;
    } catch (Exception) {
        $body = '';
    }
} while ((int) $body === 0 && microtime(true) < $deadline);
var_dump((int) $body > 0 && $body !== $pid);
echo preg_replace('/^.*(Class A)/', '$1', $server->logged('/abstract/')), "\n";
var_dump($server->output());
?>
--EXPECTF--
200 message: hello
200 500
NULL
bool(true)
Class A %s in server.php(4) : eval()'d code:1
string(0) ""
