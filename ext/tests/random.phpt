--TEST--
Workers do not share the random state they inherited
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
mt_srand(1);
mt_rand();
lcg_value();
$drawn = null;
$server->get('/', function () use (&$drawn) { $drawn ??= [mt_rand(), lcg_value(), rand(), array_rand(range(0, 1 << 16))];
    return Response::json([getmypid(), $drawn]); });
PHP, 'workers: 4');
$seen = [];
$deadline = microtime(true) + WAIT_S;
while (count($seen) < 3 && microtime(true) < $deadline) {
    [$pid, $drawn] = json_decode($server->get('/')->body, true);
    $seen[$pid] = $drawn;
}
var_dump(count($seen) >= 3);
for ($i = 0; $i < 2; $i++) {
    var_dump(count(array_unique(array_map('strval', array_column($seen, $i)))) === count($seen));
}
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
