--TEST--
What a handler that waits has asked about a file is not what others are told
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
$goes = false;
$file = __DIR__ . '/asked';
file_put_contents($file, 'abc');
$server->get('/wait', function () use ($file, &$goes) {
    $sizes = [filesize($file), is_link($file)];
    // Unlike the end of a handler, this write does not clear PHP's stat cache.
    file_put_contents("$file.waits", '');
    while (!$goes) {
        delay(0.002);
    }
    return Response::json([...$sizes, filesize($file)]);
});
$server->get('/name', fn () => Response::text($file));
$server->get('/go', function () use ($file, &$goes) { $goes = true; return Response::json([filesize($file), is_link($file)]); });
PHP;
$server = new TestServer($program);
$file = $server->get('/name')->body;
$connection = $server->connect();
$connection->start('GET', '/wait');
for ($deadline = microtime(true) + WAIT_S; !file_exists("$file.waits") && microtime(true) < $deadline;) {
    usleep(2000);
}
file_put_contents($file, 'abcdef');
echo 'other: ', $server->get('/go'), "\n";
echo 'waiting: ', $connection->answer(), "\n";
var_dump($server->stop());
?>
--EXPECT--
other: 200 [6,false]
waiting: 200 [3,false,6]
int(0)
