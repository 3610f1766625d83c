--TEST--
Handlers that wait in array_walk_recursive() over one array find no recursion in it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$shared = [[1, 2], [3, [4]]];
$server->get('/', function () use (&$shared): Response {
    $sum = 0;
    array_walk_recursive($shared, function (int $value) use (&$sum): void {
        delay(0.002);
        $sum += $value;
    });
    return Response::text((string) $sum);
});
PHP);
$connections = [];
for ($i = 0; $i < 4; $i++) {
    $connections[$i] = $server->connect();
    $connections[$i]->start('GET', '/');
}
foreach ($connections as $connection) {
    echo $connection->answer(), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
200 10
200 10
200 10
200 10
int(0)
