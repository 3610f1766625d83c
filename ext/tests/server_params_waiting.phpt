--TEST--
Request::serverParams(): a request that has waited for another knows the server's address, port and its version of HTTP
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/slow', function () { delay(0.3); return Response::text('slow'); });
$server->get('/params', function (Request $r) {
    $r->fillGlobals();
    $p = $r->serverParams();
    $names = ['SERVER_ADDR', 'SERVER_PORT', 'SERVER_PROTOCOL', 'SERVER_NAME', 'REMOTE_ADDR'];
    $one = array_map(fn ($name) => $p[$name], $names);
    return Response::json([...$one, $one === array_map(fn ($name) => $_SERVER[$name], $names)]);
});
PHP, 'workers: 1, limits: new Limits(handlers: 1)', environment: ['FERMATA_LISTEN' => 'http://127.0.0.1:0,http://[::1]:0']);
$four = $server->wait('~http://127\.0\.0\.1:(\d+)~')[1];
$six = $server->wait('~http://\[::1\]:(\d+)~')[1];
$ask = function (string $address) use ($server): array {
    $slow = $server->connect();
    $slow->start('GET', '/slow');
    usleep(50_000);
    $socket = stream_socket_client("tcp://$address");
    fwrite($socket, "GET /params HTTP/1.0\r\n\r\n");
    $answer = stream_get_contents($socket);
    $slow->answer();
    return json_decode(substr($answer, strpos($answer, "\r\n\r\n")), true);
};
foreach (["127.0.0.1:$four", "[::1]:$six"] as $address) {
    $params = $ask($address);
    $params[1] = $params[1] === substr(strrchr($address, ':'), 1);
    echo json_encode($params, JSON_UNESCAPED_SLASHES), "\n";
}
?>
--EXPECT--
["127.0.0.1",true,"HTTP/1.0","127.0.0.1","127.0.0.1",true]
["::1",true,"HTTP/1.0","[::1]","::1",true]
