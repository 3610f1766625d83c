--TEST--
refuse() answers before 101; a failing upgrade() answers 500 or 400
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/{how}', message: fn () => null, upgrade: function (Upgrade $upgrade) {
    $upgrade->setData(new stdClass);
    match ($upgrade->request()->route('how')) {
        'plain' => $upgrade->refuse(),
        'status' => $upgrade->refuse(404),
        'stream' => $upgrade->refuse(Response::stream((function () { yield 'not '; yield 'now'; })(), 503, ['Retry-After' => '7'], length: 7)),
        'pieces' => $upgrade->refuse(Response::stream(['one', 'two'], 403)),
        'broken' => $upgrade->refuse(Response::stream((function () { throw new LogicException('stream is broken'); yield ''; })(), 403)),
        'response' => $upgrade->refuse(Response::json(['error' => 'sign in'], 401)->withHeader('X-Why', 'no session')),
        'throw' => throw new LogicException('upgrade is broken'),
        'bad' => throw new Fermata\Exception\BadRequestException('what?'),
        'late' => [$upgrade->accept(), throw new LogicException('after accept()')],
        'exit' => exit(1),
    };
});
PHP);
foreach (['plain', 'status', 'response', 'stream', 'broken', 'throw', 'bad', 'late', 'exit'] as $how) {
    $answer = $server->socket("/$how")->answer;
    echo "$how: ", trim((string) $answer), ' ', $answer->header('x-why') ?? $answer->header('retry-after'), "\n";
}
// The body is sent in chunks, and the connection can be used for another request.
$connection = $server->connect();
$refused = (new Client($connection, '/pieces'))->answer;
echo 'pieces: ', $refused->status, ' ', $refused->header('transfer-encoding'), ' ', $connection->chunks(), "\n";
$connection->start('GET', '/plain', ['Connection' => 'Upgrade', 'Upgrade' => 'websocket', 'Sec-WebSocket-Version' => '13',
    'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==']);
echo 'after it: ', $connection->answer()->status, "\n";
foreach (explode("\n", $server->logged('/broken|after|exit/')) as $line) {
    echo preg_replace('/^.*?(LogicException|exit)/', '$1', $line), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
plain: 403 
status: 404 
response: 401 {"error":"sign in"} no session
stream: 503 not now 7
broken: 500 The server has failed to answer; its log tells why. 
throw: 500 The server has failed to answer; its log tells why. 
bad: 400 what? 
late: 500 The server has failed to answer; its log tells why. 
exit: 500 The server has failed to answer; its log tells why. 
pieces: 403 chunked onetwo
after it: 403
LogicException: stream is broken in server.php:8
LogicException: upgrade is broken in server.php:10
LogicException: after accept() in server.php:12
exit() called in handler; return a Response to end a request in server.php:1
int(0)
