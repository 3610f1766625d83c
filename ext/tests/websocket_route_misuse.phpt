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
thrown(fn () => $server->websocket('/unnamed', fn () => null));
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
--EXPECTF--
Fermata\Exception\MisuseError: websocket() needs a handler object, or at least one callable such as message:
Fermata\Exception\MisuseError: websocket() takes a handler object or callables, not both
Fermata\Exception\MisuseError: websocket() takes a WebSocketHandler as its second argument and closures by name: websocket('/path', message: fn (WebSocket $socket, Message $message) => …)
Fermata\Exception\MisuseError: the path "nowhere" does not start with /; write it as it stands in the URL after the host
TypeError: Fermata\Server::websocket(): Argument #3 ($message) must be a valid callback or null, function "no_such_function" not found or invalid function name
Fermata\Exception\MisuseError: there already is a handler for GET /ws; remove one of the two
Fermata\Exception\MisuseError: there already is a handler for GET /page; remove one of the two
Fermata\Exception\MisuseError: there already is a handler for GET /ws; remove one of the two
Fermata\Exception\MisuseError: the WebSocket at /origin: the origin "example.org/" is malformed; write scheme://host or scheme://host:port, without a path, or ['*'] for all pages
Fermata\Exception\MisuseError: the WebSocket at /protocol: the subprotocol "a b" is malformed; use letters, digits and .-_ as in "chat.v2"
Fermata\Exception\MisuseError: the WebSocket at /queue: queueBytes is too small; give at least 4096
Fermata\Exception\ConfigurationException: listen: cannot listen on http://256.0.0.1:1: %s
Fermata\Exception\MisuseError: run() was called; routes are registered before it, and it is called once
