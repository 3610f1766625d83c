--TEST--
Sync\Queue: its iterator after an exception, and with a destructor that throws between two values
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/exception', function () {
    $iterator = (new Fermata\Sync\Queue)->getIterator();
    try { timeout(0.01, fn () => $iterator->rewind()); } catch (Fermata\Exception\TimeoutException) {}
    return Response::json([$iterator->valid(), $iterator->key(), $iterator->current()]);
});
$server->get('/destructor', function () {
    $queue = new Fermata\Sync\Queue(3);
    $queue->push(new class { public function __destruct() { throw new LogicException('of a destructor'); } });
    $queue->push(1);
    $queue->close();
    try { foreach ($queue as $value) { unset($value); } } catch (LogicException $e) { return Response::json([$e->getMessage(), iterator_to_array($queue)]); }
});
PHP);
echo $server->get('/exception'), "\n", $server->get('/destructor'), "\n";
?>
--EXPECT--
200 [false,null,null]
200 ["of a destructor",[1]]
