--TEST--
A fatal error: 1011 to that client, 1012 to the others, the worker is replaced
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->websocket('/ws', message: function (WebSocket $socket, Message $message) {
    register_shutdown_function(function () use ($socket, $message) {
        var_dump($socket->isOpen(), $socket->trySend('x'), (string) $message);
    });
    $message == 'fatal' ? eval('class A { abstract function b(); }') : $socket->send($message);
}, close: fn () => print("close() must not run any more\n"));
PHP, environment: ['VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
$pid = $server->get('/')->body;
$other = $server->socket('/ws');
$client = $server->socket('/ws');
echo $client->ask('fatal'), "\n";
$client->close();
echo $other->receive(), "\n";
$other->close();
$server->wait('/listening|started/', 2);
$deadline = microtime(true) + WAIT_S;
do {
    try {
        $body = $server->get('/')->body;
    } catch (Exception) {
        $body = '';
    }
} while ((int) $body === 0 && microtime(true) < $deadline);
var_dump((int) $body > 0 && $body !== $pid);
$again = $server->socket('/ws');
echo $again->ask('again'), "\n";
echo preg_replace('/^.*(WebSocket handler)/', '$1', $server->logged('/abstract/')), "\n";
echo $server->output();
?>
--EXPECTF--
close: 1011
close: 1012
bool(true)
text: again
WebSocket handler: Class A %s in server.php(6) : eval()'d code:1
bool(false)
bool(false)
string(5) "fatal"
bool(true)
bool(true)
string(5) "again"
