--TEST--
A process that a handler forks cannot use its parent's connections
--EXTENSIONS--
fermata
pcntl
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    if (($pid = pcntl_fork()) === 0) {
        if ($message == 'back') { return; }
        try { $socket->send('from the child'); } catch (Exception $e) { echo $e::class, "\n"; }
        var_dump($socket->trySend('x'), $socket->isOpen());
        $socket->close();
        exit(5);
    }
    pcntl_waitpid($pid, $status);
    $socket->send('child ' . pcntl_wexitstatus($status));
});
PHP);
$client = $server->socket('/');
echo $client->ask('exit'), "\n", $client->ask('back'), "\n", $client->ask('exit'), "\n", $client->leave(), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
text: child 5
text: child 0
text: child 5
close: 1000
int(0)
Fermata\Exception\ConnectionClosedException
bool(false)
bool(false)
Fermata\Exception\ConnectionClosedException
bool(false)
bool(false)
