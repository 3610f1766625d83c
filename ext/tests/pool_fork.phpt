--TEST--
Pool: no worker goes on with a connection that the script has opened before run()
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$opened = 0;
$pool = new Fermata\Pool(function () use (&$opened) { $it = new stdClass(); $it->number = ++$opened; $it->process = getmypid(); return $it; }, size: 1);
$pool->use(fn (stdClass $it) => $it->number);
$server->get('/', fn () => Response::text($pool->use(fn (stdClass $it) => $it->number . ' ' . var_export($it->process === getmypid(), true))
    . " {$pool->idle()} {$pool->borrowed()}"));
PHP);
echo $server->get('/')->body, "\n", $server->get('/')->body, "\n";
var_dump($server->stop());
?>
--EXPECT--
2 true 1 0
2 true 1 0
int(0)
