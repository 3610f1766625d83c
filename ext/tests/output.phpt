--TEST--
echo in a handler goes to standard output; buffers left open are flushed there
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
echo "before\n";
$server->get('/echo', function () { echo "echoed\n"; return Response::text('answer'); });
$server->get('/level', fn () => Response::text((string) ob_get_level()));
$server->get('/open', function () { ob_start(); ob_start(); echo "left open\n"; return Response::text('answer'); });
$server->get('/callback', function () { ob_start(fn () => throw new Exception('callback')); echo 'x'; return Response::text('answer'); });
$server->get('/captured', function () { ob_start(); echo 'captured'; return Response::text(ob_get_clean()); });
PHP);
foreach (['/echo', '/open', '/level', '/callback', '/level', '/captured', '/level'] as $target) {
    echo $server->get($target), "\n";
}
echo $server->output();
var_dump(substr_count($server->log(), 'Exception: callback'));
?>
--EXPECTF--
200 answer
200 answer
200 0
200 answer
200 0
200 captured
200 0
before
echoed
left open
%Aint(1)
