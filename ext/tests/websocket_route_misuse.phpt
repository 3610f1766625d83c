--TEST--
Mistakes in websocket() are named when the route is made
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Server, WebSocketHandler};
use Fermata\WebSocket\{Compression, Options};

require __DIR__ . '/server.inc';

$server = new Server(listen: 'http://127.0.0.1:0');
$message = fn () => null;
thrown(fn () => $server->websocket('/none'));
thrown(fn () => $server->websocket('/both', new class extends WebSocketHandler {}, $message));
thrown(fn () => $server->websocket('nowhere', message: $message));
thrown(fn () => $server->websocket('/ws', message: 'no_such_function'));
$server->websocket('/ws', message: $message)->get('/page', fn () => null);
thrown(fn () => $server->websocket('/ws', message: $message));
thrown(fn () => $server->websocket('/page', message: $message));
thrown(fn () => $server->get('/ws', fn () => null));
thrown(fn () => $server->websocket('/origin', message: $message, options: new Options(origins: ['example.org/'])));
thrown(fn () => $server->websocket('/protocol', message: $message, options: new Options(protocols: ['a b'])));
thrown(fn () => $server->websocket('/queue', message: $message, options: new Options(queueBytes: 1)));
$ran = new Server(listen: 'http://256.0.0.1:1');
thrown($ran->run(...));
thrown(fn () => $ran->websocket('/late', message: $message));
?>
--EXPECT--
