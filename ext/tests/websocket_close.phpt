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
        echo $told = $client->receive(), "\n";
    }
    $client->close((int) substr($told, strlen('close: ')));
    echo $client->receive(), "\n";
}
$server->stop();
echo $server->output();
?>
--EXPECT--
default: close: 1000
ended
enum: close: 1008 not like that
ended
number: close: 4000 Grüße
ended
misuse: close: 4001
ended
after: text: last words
close: 1000
ended
close 1000  [false,false,true,"127.0.0.1"]
close 1008  [false,false,true,"127.0.0.1"]
close 4000  [false,false,true,"127.0.0.1"]
Fermata\Exception\MisuseError: close code 999 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 1004 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 1005 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 1006 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 1015 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 2999 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 5000 must not be sent; use a CloseCode or 3000 to 4999
Fermata\Exception\MisuseError: close code -1 must not be sent; use a CloseCode or 3000 to 4999
Fermata\Exception\MisuseError: close code 66536 must not be sent; use a CloseCode or 3000 to 4999
Fermata\Exception\MisuseError: the close reason is not UTF-8 or has more than 123 bytes; shorten it
Fermata\Exception\MisuseError: the close reason is not UTF-8 or has more than 123 bytes; shorten it
Fermata\Exception\MisuseError: close code 1006 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
close 4001  [false,false,true,"127.0.0.1"]
bool(false)
bool(false)
bool(false)
Fermata\Exception\ConnectionClosedException: the WebSocket is closed; check isOpen() first
Fermata\Exception\ConnectionClosedException: the WebSocket is closed; check isOpen() first
Fermata\Exception\ConnectionClosedException: the WebSocket is closed; check isOpen() first
close 1000  [false,false,true,"127.0.0.1"]
