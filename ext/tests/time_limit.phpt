--TEST--
set_time_limit() counts for the handler that called it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) ini_get('max_execution_time')));
$server->get('/limited', function () { set_time_limit(1); return Response::text((string) ini_get('max_execution_time')); });
$server->get('/endless', function () { set_time_limit(1); for (;;) {} });
PHP, environment: ['VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
echo $server->get('/limited'), "\n", $server->get('/'), "\n";
echo $server->get('/endless')->status, "\n";
$server->wait('/Maximum execution/');
echo strstr($server->logged('/Maximum execution/'), 'Maximum'), "\n";
?>
--EXPECT--
200 1
200 0
500
Maximum execution time of 1 second exceeded in server.php:3
