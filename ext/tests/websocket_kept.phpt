--TEST--
Sockets kept in statics, closures and Fibers: equal, usable, and told apart after their end
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$kept = [];
$fiber = null;
$weak = null;
$server->websocket('/', open: function (WebSocket $socket) use (&$kept) { static $first; $first ??= $socket; $kept[] = $socket; $first == $socket || $first->send('another one'); },
    message: function (WebSocket $socket, Message $message) use (&$kept, &$fiber, &$weak) {
        switch ((string) $message) {
            case 'equal': $socket->send(json_encode([$socket == $kept[0], $socket === $kept[0], $socket->id() === $kept[0]->id(), $socket == $kept[1],
                $socket == new stdClass, in_array($socket, $kept), array_search($socket, $kept)])); break;
            case 'fiber': $fiber = new Fiber(function (WebSocket $socket, Message $message) { Fiber::suspend(); $socket->send("from $message"); }); $fiber->start($socket, $message); break;
            case 'resume': $fiber->resume(); break;
            case 'weak': $weak = WeakReference::create($socket); break;
            case 'weak?': $socket->send(json_encode($weak->get() === null)); break;
            case 'ended': $one = end($kept); try { $one->send('x'); } catch (Exception $e) { $socket->send($e::class); }
                $socket->send(json_encode([$one->isOpen(), $one->trySend('x'), $one->id() !== '', $one->remoteAddress(), $one->remotePort() > 0, $one->protocol(), $one->queuedBytes(), $one->data()]));
                try { $one->setData(1); } catch (Exception $e) { $socket->send($e::class); } $one->close(); $one->leave('x'); break;
            case 'drop': $kept = []; $fiber = null; $socket->send('dropped'); break;
        }
    }, close: fn (WebSocket $socket) => print('closed ' . array_search($socket, $kept) . "\n"), options: new Options(protocols: ['p']));
PHP);
$first = $server->socket('/');
$second = $server->socket('/', ['Sec-WebSocket-Protocol' => 'p']);
echo $first->receive(), "\n", $first->ask('equal'), "\n", $second->ask('equal'), "\n";
$first->send('fiber');
echo $second->ask('weak?') === 'x' ? '' : '', $second->leave(), "\n";
$first->send('weak');
echo $first->ask('resume'), "\n", $first->ask('weak?'), "\n", $first->ask('ended'), "\n", $first->receive(), "\n", $first->receive(), "\n", $first->ask('drop'), "\n";
echo $first->leave(), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
