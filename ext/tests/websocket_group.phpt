--TEST--
websocket() in a group: handshakes pass through the middleware, which may refuse, wait and add headers
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$auth = function (Request $request, callable $next) {
    match ($request->query('user')) {
        'wait' => delay(0.001),
        'throw' => throw new Fermata\Exception\BadRequestException('no such user', 422),
        'return' => throw new RuntimeException('thrown'),
        null => null,
        default => null,
    };
    if ($request->query('user') === null) {
        return Response::text('who are you?', 401);
    }
    if ($request->query('user') === 'hold') {
        return Hold::sse('room');
    }
    $response = $next($request->withAttribute('user', $request->query('user')));
    echo "{$request->query('user')}: {$response->status()}\n";
    return $request->query('user') === 'changed' ? $response->withStatus(418) : $response->withHeader('X-User', $request->query('user'));
};
$server->group('/rooms/{id}', function ($routes) {
    $routes->websocket('/ws',
        upgrade: function (Upgrade $upgrade) {
            $request = $upgrade->request();
            if ($request->route('id') === '0') { $upgrade->refuse(Response::text('no room', 404)); return; }
            if ($request->route('id') === '9') { $upgrade->refuse(409); return; }
            if ($request->route('id') === '8') { throw new LogicException('in upgrade'); }
            $upgrade->setData([$request->route('id'), $request->attribute('user')]);
            $upgrade->accept('v1', ['X-Own' => 'yes']);
        },
        message: fn (WebSocket $socket, Message $message) => $socket->send(json_encode($socket->data()) . " $message"),
        options: new Options(protocols: ['v1']));
    $routes->websocket('/plain', message: fn (WebSocket $socket, Message $message) => $socket->send("plain $message"));
}, middleware: [$auth]);
$server->websocket('/open', message: fn (WebSocket $socket, Message $message) => $socket->send("open $message"));
$server->websocket('/one', message: fn (WebSocket $socket, Message $message) => $socket->send("one $message"), middleware: [$auth]);
$kept = null;
$server->websocket('/kept', message: fn () => null, middleware: [function (Request $request, callable $next) use (&$kept) {
    $response = $kept ?? $next($request);
    $kept = $response;
    return $response;
}]);
PHP);
foreach (['/rooms/1/ws?user=a', '/rooms/2/ws?user=wait', '/rooms/1/ws', '/rooms/0/ws?user=a', '/rooms/9/ws?user=a', '/rooms/8/ws?user=a', '/rooms/1/ws?user=throw',
    '/rooms/1/ws?user=return', '/rooms/1/ws?user=changed', '/rooms/3/plain?user=b', '/rooms/3/plain', '/open', '/one?user=c', '/one', '/kept', '/kept'] as $target) {
    $client = $server->socket($target, ['Sec-WebSocket-Protocol' => 'v1']);
    $answer = $client->answer;
    echo "$target ", trim($answer), " | {$answer->header('x-user')} | {$answer->header('x-own')} | {$answer->header('sec-websocket-protocol')}";
    if ($answer->status === 101 && $target !== '/kept') {
        $client->send('hello');
        echo ' | ', $client->receive();
    }
    echo "\n";
}
// Not a handshake: the server refuses without calling a handler.
echo $server->get('/rooms/1/ws?user=a')->status, "\n";
var_dump($server->stop());
echo "-- output\n", $server->output(), "-- log\n", $server->logged('/ error /'), "\n";
?>
--EXPECTF--
/rooms/1/ws?user=a 101 | a | yes | v1 | text: ["1","a"] hello
/rooms/2/ws?user=wait 101 | wait | yes | v1 | text: ["2","wait"] hello
/rooms/1/ws 401 who are you? |  |  | 
/rooms/0/ws?user=a 404 no room | a |  | 
/rooms/9/ws?user=a 409 | a |  | 
/rooms/8/ws?user=a 500 The server has failed to answer; its log tells why. |  |  | 
/rooms/1/ws?user=throw 422 no such user |  |  | 
/rooms/1/ws?user=return 500 The server has failed to answer; its log tells why. |  |  | 
/rooms/1/ws?user=changed 418 |  |  | 
/rooms/3/plain?user=b 101 | b |  |  | text: plain hello
/rooms/3/plain 401 who are you? |  |  | 
/open 101 |  |  |  | text: open hello
/one?user=c 101 | c |  |  | text: one hello
/one 401 who are you? |  |  | 
/kept 101 |  |  | 
/kept 500 The server has failed to answer; its log tells why. |  |  | 
426
int(0)
-- output
a: 101
wait: 101
a: 404
a: 409
changed: 101
b: 101
c: 101
-- log
%SLogicException: in upgrade in server.php:%d
%SRuntimeException: thrown in server.php:%d
%SMisuseError: this Response accepts another WebSocket; return what $next($request) has given%S
