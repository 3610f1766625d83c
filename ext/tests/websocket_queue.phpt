--TEST--
A client that does not read: what each QueuePolicy does
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
foreach (QueuePolicy::cases() as $policy) {
    $server->websocket("/{$policy->value}", message: function (WebSocket $socket, Message $message) use ($policy) {
        $sent = 0;
        try {
            while ($sent < 1000 && $socket->isOpen()) { $socket->send(str_repeat('x', 100_000)); $sent++; }
            $told = "sent $sent";
        } catch (Exception $e) {
            $told = $e::class;
        }
        $bounded = $socket->queuedBytes() <= 1_100_000;
        echo "$policy->value: $told ", json_encode([$bounded, $socket->trySend(str_repeat('x', 100_000)), $socket->isOpen()]), "\n";
    }, options: new Options(queueBytes: 1_000_000, queuePolicy: $policy));
}
PHP);
foreach (['refuse', 'drop-oldest', 'close'] as $policy) {
    $client = $server->socket("/$policy");
    $client->send('go');
    for ($i = 0, $told = ''; $i < 2000 && strlen($told = $client->receive()) > 1000 && $policy === 'close'; $i++);
    echo $policy === 'close' ? $told : strlen($told), "\n";
    $client->cut();
}
$server->stop();
echo $server->output();
?>
--EXPECT--
