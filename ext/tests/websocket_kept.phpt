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
    }, close: function (WebSocket $socket, int $code) use (&$kept) { echo "closed $code ", json_encode(array_search($socket, $kept)), "\n"; error_log('seen the end'); }, options: new Options(protocols: ['p']));
PHP);
$first = $server->socket('/');
$second = $server->socket('/', ['Sec-WebSocket-Protocol' => 'p']);
echo $first->receive(), "\n", $first->ask('equal'), "\n", $second->ask('equal'), "\n";
$first->send('fiber');
echo $second->leave(4000), "\n";
$server->wait('/seen the end/');
$first->send('weak');
echo $first->ask('resume'), "\n", $first->ask('weak?'), "\n", $first->ask('ended'), "\n", $first->receive(), "\n", $first->receive(), "\n", $first->ask('drop'), "\n";
echo $first->leave(), "\n";
var_dump($server->stop());
echo $server->output();
?>
--EXPECT--
text: another one
text: [true,false,true,false,false,true,0]
text: [false,false,false,true,false,true,1]
close: 4000
text: from fiber
text: true
text: Fermata\Exception\ConnectionClosedException
text: [false,false,true,"127.0.0.1",true,"p",0,null]
text: Fermata\Exception\ConnectionClosedException
text: dropped
close: 1000
int(0)
closed 4000 1
closed 1000 false
