--TEST--
A client that leaves ends the waits of its handler and tasks, unless they are shielded
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/now', fn () => Response::text('now'));
$server->get('/wait', function () {
    echo "waits\n";
    try { delay(60); } catch (Throwable $e) { echo $e::class, ': ', $e->getMessage(), "\n"; throw $e; } finally { echo "finally\n"; }
});
$server->get('/again', function () {
    echo "waits\n";
    try { delay(60); } catch (Fermata\Exception\ClientGoneException) { try { delay(0); } catch (Fermata\Exception\ClientGoneException) { echo "again\n"; } }
    return Response::text('nobody');
});
$server->get('/shield', function () {
    echo "waits\n";
    shield(fn () => delay(0.3));
    echo "shielded\n";
    try { delay(0); } catch (Fermata\Exception\CancelledException $e) { echo $e::class, "\n"; }
    return Response::text('nobody');
});
$server->get('/shielded/tasks', function () {
    echo "waits\n";
    $sum = shield(fn () => all(fn () => delay(0.3) ?? 1, fn () => await(async(fn () => delay(0.3) ?? 2))));
    echo 'shielded sum ', array_sum($sum), "\n";
    return Response::text('nobody');
});
$server->get('/tasks', function () {
    $task = async(function () { try { delay(60); } catch (Throwable $e) { echo 'task ', $e::class, "\n"; throw $e; } });
    echo "waits\n";
    try { all($task, fn () => delay(60)); } finally { echo "left\n"; }
});
$server->get('/fiber', function () { (new Fiber(function () { echo "waits\n"; try { delay(60); } finally { echo "fiber left\n"; } }))->start(); });
PHP);
$until = function (string $text) use ($server) {
    $deadline = microtime(true) + WAIT_S;
    while (!str_contains($server->output(), $text)) {
        if (microtime(true) > $deadline) {
            throw new Exception("no $text in " . $server->output() . $server->log());
        }
        usleep(1000);
    }
};
$output = '';
foreach (['/wait' => 'finally', '/again' => 'again', '/shield' => "shielded\nFermata\Exception\ClientGoneException", '/shielded/tasks' => 'shielded sum 3', '/tasks' => "ClientGoneException\nleft", '/fiber' => 'fiber left'] as $target => $end) {
    $before = substr_count($server->output(), 'waits');
    $connection = $server->connect();
    $connection->start('GET', $target);
    while (substr_count($server->output(), 'waits') === $before) {
        usleep(1000);
    }
    $connection->cut();
    usleep(1000);
    try { $until($end); } catch (Exception $e) { echo $e->getMessage(); }
    echo "$target ", $server->get('/now')->body, "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/'), "\n";
?>
--EXPECT--
/wait now
/again now
/shield now
/shielded/tasks now
/tasks now
/fiber now
int(0)
waits
Fermata\Exception\ClientGoneException: the client has left
finally
waits
again
waits
shielded
Fermata\Exception\ClientGoneException
waits
shielded sum 3
waits
task Fermata\Exception\ClientGoneException
left
waits
fiber left

