--TEST--
upgrade() reads the request, names a subprotocol, adds headers and data
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/rooms/{id}',
    upgrade: function (Upgrade $upgrade) {
        $request = $upgrade->request();
        $upgrade->setData([$request->route('id'), $request->query('q'), $request->cookie('c'), $upgrade->protocols(), $upgrade->origin()]);
        if ($request->query('accept') !== null) {
            $upgrade->accept($request->query('accept') ?: null, ['X-Room' => $request->route('id'), 'Set-Cookie' => ['a=b', 'c=d']]);
        }
    },
    open: fn (WebSocket $socket) => $socket->send(json_encode([$socket->data(), $socket->protocol()], JSON_UNESCAPED_SLASHES)),
    options: new Options(protocols: ['v2', 'v1'], origins: ['https://example.org']));
PHP);
foreach ([
    ['/rooms/5?q=x', ['Cookie' => 'c=d', 'Sec-WebSocket-Protocol' => ['v1,', ' other , v2'], 'Origin' => 'https://example.org']],
    ['/rooms/6?accept=v1', ['Sec-WebSocket-Protocol' => 'v2, v1']],
    ['/rooms/7?accept=own', ['Sec-WebSocket-Protocol' => 'own']],
    ['/rooms/8?accept=', ['Sec-WebSocket-Protocol' => 'unknown']],
] as [$target, $headers]) {
    $client = $server->socket($target, $headers);
    echo $client->answer->status, ' ', json_encode([$client->answer->header('sec-websocket-protocol'), $client->answer->header('x-room'),
        $client->answer->headers['set-cookie'] ?? null]), ' ', $client->receive(), "\n";
}
?>
--EXPECT--
101 ["v2",null,null] text: [["5","x","d",["v1","other","v2"],"https://example.org"],"v2"]
101 ["v1","6",["a=b","c=d"]] text: [["6",null,null,["v2","v1"],null],"v1"]
101 ["own","7",["a=b","c=d"]] text: [["7",null,null,["own"],null],"own"]
101 [null,"8",["a=b","c=d"]] text: [["8",null,null,["unknown"],null],null]
