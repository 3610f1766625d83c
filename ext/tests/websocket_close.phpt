--TEST--
close(): codes and reasons; afterwards sending throws and trySend() says false
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    $try = function (callable $do) { try { $do(); echo "nothing\n"; } catch (Throwable $e) { echo $e::class, ': ', $e->getMessage(), "\n"; } };
    switch ((string) $message) {
        case 'default': $socket->close(); break;
        case 'enum': $socket->close(CloseCode::PolicyViolation, 'not like that'); break;
        case 'number': $socket->close(4000, 'Grüße'); break;
        case 'misuse':
            foreach ([999, 1004, 1005, 1006, 1015, 2999, 5000, -1, 66536] as $code) { $try(fn () => $socket->close($code)); }
            $try(fn () => $socket->close(reason: str_repeat('x', 124)));
            $try(fn () => $socket->close(reason: "\xff"));
            $try(fn () => $socket->close(CloseCode::Abnormal));
            $socket->close(4001);
            break;
        case 'after':
            $socket->send('last words');
            $socket->close();
            $socket->close(4002, 'too late');
            var_dump($socket->isOpen(), $socket->trySend('x'), $socket->trySend($message));
            $try(fn () => $socket->send('x'));
            $try(fn () => $socket->sendBinary('x'));
            $try(fn () => $socket->join('room'));
            $socket->leave('room');
            break;
    }
}, close: function (WebSocket $socket, int $code, string $reason) {
    echo "close $code $reason ", json_encode([$socket->isOpen(), $socket->trySend('x'), strlen($socket->id()) > 0, $socket->remoteAddress()]), "\n";
});
PHP);
foreach (['default', 'enum', 'number', 'misuse', 'after'] as $how) {
    $client = $server->socket('/');
    $told = $client->ask($how);
    echo "$how: $told\n";
    if (!str_starts_with($told, 'close')) {
        echo $client->receive(), "\n";
    }
    $client->close(preg_match('/close: (\d+)/', $told, $match) ? (int) $match[1] : 1000);
    echo $client->receive(), "\n";
}
$server->stop();
echo $server->output();
?>
--EXPECT--
