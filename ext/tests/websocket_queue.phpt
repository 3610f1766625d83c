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
        if ($message != 'go') { $socket->send($message); return; }
        $sent = 0;
        try {
            while ($sent < 1000) { $socket->send(str_repeat('x', 100_000)); $sent++; }
            $told = "sent $sent";
        } catch (Exception $e) {
            $told = $e::class;
        }
        echo "$policy->value: $told ", json_encode([$socket->queuedBytes() <= 1_100_000, $socket->trySend(str_repeat('x', 500_000)), $socket->isOpen()]), "\n";
        error_log("done $policy->value");
    }, options: new Options(queueBytes: 1_000_000, queuePolicy: $policy));
}
PHP);
foreach (['refuse', 'drop-oldest', 'close'] as $policy) {
    $client = $server->socket("/$policy");
    $client->send('go');
    $server->wait("/done $policy/");
    $policy === 'close' || $client->send('enough');
    $messages = 0;
    while (($told = $client->receive()) !== 'text: enough' && !str_starts_with($told, 'close')) {
        $messages++;
    }
    var_dump($messages > 0 && $messages < 1000);
    if ($policy === 'close') {
        echo "$told\n";
    }
}
$server->stop();
echo $server->output();
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
close: 1013 more messages wait than the server keeps; read faster
refuse: Fermata\Exception\BackpressureException [true,false,true]
drop-oldest: sent 1000 [true,true,true]
close: Fermata\Exception\ConnectionClosedException [true,false,false]
