--TEST--
Runtime::hook() without arguments turns on every hook whose extension is loaded
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Hook, Runtime};

require __DIR__ . '/server.inc';

Runtime::hook();
$all = Runtime::hooks();
Runtime::hook(...Hook::cases());
var_dump(in_array(Hook::Sleep, $all, true), $all === Runtime::hooks());

// With the hook that the log recommends for a blocking handler, others continue.
$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook();
$naps = false;
$server->get('/nap', function () use (&$naps) { $naps = true; usleep(700_000); $naps = false; return Response::text('napped'); });
$server->get('/ok', function () use (&$naps) { return Response::text($naps ? 'beside it' : 'alone'); });
PHP, 'workers: 1');
$nap = $server->connect();
$nap->start('GET', '/nap');
usleep(50_000);
echo $server->connect()->request('GET', '/ok'), "\n";
echo $nap->answer(), "\n";
var_dump($server->stop());
?>
--EXPECT--
bool(true)
bool(true)
200 beside it
200 napped
int(0)
