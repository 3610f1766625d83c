--TEST--
Request: method, path, target, query string, remote address
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->any('/{rest...}', fn (Request $r) => Response::text(implode(' ', [
    $r->method(), $r->path(), $r->target(), '[' . $r->queryString() . ']', $r->remoteAddress(),
    $r->remotePort() > 0 ? 'port' : 'none', '[' . $r->body() . ']',
])));
PHP);
echo $server->get('/'), "\n";
echo $server->get('/a%20b/%C3%BC?x=1&y=%20'), "\n";
echo $server->request('PURGE', '/a?'), "\n";
echo $server->request('POST', '/a', [], "bo\0dy"), "\n";
$chunked = $server->connect();
$chunked->send("PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
echo $chunked->answer(), "\n";
?>
--EXPECTF--
200 GET / / [] 127.0.0.1 port []
200 GET /a b/ü /a%20b/%C3%BC?x=1&y=%20 [x=1&y=%20] 127.0.0.1 port []
200 PURGE /a /a? [] 127.0.0.1 port []
200 POST /a /a [] 127.0.0.1 port [bo%0dy]
200 PUT /c /c [] 127.0.0.1 port [abcde]
