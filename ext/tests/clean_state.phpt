--TEST--
error_get_last() and the stat cache start empty for every handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/warn2', function () { @file_get_contents('/nowhere'); return Response::accepted(); });
$server->get('/last', fn () => Response::json(error_get_last()));
$server->get('/exists', fn (Request $r) => Response::json(file_exists(__DIR__ . '/flag')));
PHP);
$server->get('/warn2');
echo $server->get('/last'), "\n";
echo $server->get('/exists'), "\n";
touch($server->folder() . '/flag');
echo $server->get('/exists'), "\n";
unlink($server->folder() . '/flag');
echo $server->get('/exists'), "\n";
?>
--EXPECT--
200 null
200 false
200 true
200 false
