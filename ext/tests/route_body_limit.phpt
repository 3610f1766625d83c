--TEST--
bodyBytes of a route replaces the setting, for more and for less, announced and in chunks
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$length = fn (Request $request) => Response::text((string) strlen($request->body()));
$server->post('/default', $length);
$server->post('/more', $length, bodyBytes: 3000);
$server->group('/in a/{group}', function (Fermata\Routes $routes) use ($length) {
    $routes->post('/less', $length, bodyBytes: 10);
});
$server->post('/none', $length, [], 0);
PHP, 'workers: 1, limits: new Limits(bodyBytes: 1000)');
$head = "Host: test\r\nTransfer-Encoding: chunked\r\n\r\n";
foreach (['/default' => 1000, '/more' => 3000, '/in%20a/b/less' => 10, '/none' => 0] as $target => $most) {
    foreach ([$most, $most + 1] as $bytes) {
        $body = str_repeat('x', $bytes);
        echo $target, ' ', trim($server->request('POST', $target, [], $body)), ' | ';
        $connection = $server->connect();
        $connection->send("POST $target HTTP/1.1\r\n$head" . ($bytes ? dechex($bytes) . "\r\n$body\r\n" : '') . "0\r\n\r\n");
        echo trim($connection->answer()), "\n";
    }
}
?>
--EXPECT--
/default 200 1000 | 200 1000
/default 413 The body is larger than 1000 bytes. | 413 The body is larger than 1000 bytes.
/more 200 3000 | 200 3000
/more 413 The body is larger than 3000 bytes. | 413 The body is larger than 3000 bytes.
/in%20a/b/less 200 10 | 200 10
/in%20a/b/less 413 The body is larger than 10 bytes. | 413 The body is larger than 10 bytes.
/none 200 0 | 200 0
/none 413 The body is larger than 0 bytes. | 413 The body is larger than 0 bytes.
