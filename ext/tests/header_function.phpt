--TEST--
header() and setcookie() do not reach the client of a handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', function () { header('X-Late: 1'); setcookie('a', 'b'); http_response_code(404); return Response::text((string) count(headers_list())); });
PHP);
foreach ([1, 2] as $_) {
    $answer = $server->get('/');
    echo $answer, ' ', $answer->header('x-late') ?? 'none', ' ', $answer->header('set-cookie') ?? 'none', "\n";
}
?>
--EXPECT--
200 0 none none
200 0 none none
