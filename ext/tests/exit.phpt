--TEST--
exit() in a handler: 500 to that client, the worker lives
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/exit', function () { exit(3); });
$server->get('/die', function () { die("said on standard output\n"); });
$server->get('/fiber', function () { (new Fiber(fn () => exit()))->start(); return Response::accepted(); });
$server->get('/finally', function () { try { exit; } finally { return Response::accepted(); } });
PHP);
$pid = $server->get('/')->body;
foreach (['/exit', '/die', '/fiber', '/finally'] as $target) {
    echo $server->get($target)->status, "\n";
}
var_dump($server->get('/')->body === $pid);
foreach (explode("\n", $server->logged('/exit\(\)/')) as $line) {
    echo strstr($line, 'exit()'), "\n";
}
echo $server->output();
var_dump($server->stop());
?>
--EXPECT--
500
500
500
500
bool(true)
exit() called in handler; return a Response to end a request in server.php:2
exit() called in handler; return a Response to end a request in server.php:3
exit() called in handler; return a Response to end a request in server.php:4
exit() called in handler; return a Response to end a request in server.php:5
said on standard output
int(0)
