--TEST--
When all fibers wait, new requests, messages and tasks wait for a free one
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/late', function () { delay(0.05); return Response::text('late'); });
$server->get('/tasks', function () { return Response::json(all(...array_map(fn ($i) => function () use ($i) { delay(0.001); return $i; }, range(1, 9)))); });
$server->get('/many', function () { try { for (;;) { async(fn () => null); } } catch (Fermata\Exception\BackpressureException $e) { return Response::text($e->getMessage()); } });
$server->websocket('/ws', message: fn (WebSocket $socket, Message $message) => $socket->send($message));
PHP, environment: ['FERMATA_FIBERS_MAX' => '3', 'FERMATA_FIBERS_IDLE_MAX' => '1', 'FERMATA_TASKS_QUEUE_MAX' => '20']);
$socket = $server->socket('/ws');
$connections = array_map(fn () => $server->connect(), range(1, 12));
for ($round = 0; $round < 3; $round++) {
    foreach ($connections as $connection) {
        $connection->start('GET', '/late');
        $connection->start('GET', '/late');
    }
    echo $socket->ask("round $round"), "\n";
    foreach ($connections as $connection) {
        if ("{$connection->answer()}{$connection->answer()}" !== '200 late200 late') {
            echo "not answered\n";
        }
    }
}
echo $server->get('/tasks'), "\n", $server->get('/many'), "\n", $server->get('/tasks'), "\n";
echo preg_match('/warning.*all fibers \(3\) wait/', $server->log()), "\n";
var_dump($server->stop());
?>
--EXPECT--
text: round 0
text: round 1
text: round 2
200 [1,2,3,4,5,6,7,8,9]
200 20 tasks (tasks_queue_max) wait to begin; await some before you begin more
200 [1,2,3,4,5,6,7,8,9]
1
int(0)
