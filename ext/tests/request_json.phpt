--TEST--
Request::json(): decodes to arrays; nonsense is answered 400 with the message, and can be caught
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json($r->json()));
$server->post('/caught', function (Request $r) {
    try {
        return Response::json($r->json());
    } catch (Fermata\Exception\BadRequestException $error) {
        return Response::text($error->getMessage() . ': ' . $error->getPrevious()?->getMessage(), 422);
    }
});
PHP);
foreach (['{"a":{"b":[1,2.5,null,"ü"]}}', '5', '{"a":', '', '[1]x', "\"\xff\"", str_repeat('[', 600) . str_repeat(']', 600)] as $body) {
    foreach (['/', '/caught'] as $target) {
        $answer = $server->request('POST', $target, [], $body);
        echo $answer->status, ' ', trim($answer->body), "\n";
    }
}
?>
--EXPECT--
200 {"a":{"b":[1,2.5,null,"ü"]}}
200 {"a":{"b":[1,2.5,null,"ü"]}}
200 5
200 5
400 the request body is not valid JSON
422 the request body is not valid JSON: Syntax error
400 the request body is empty where JSON is expected
422 the request body is empty where JSON is expected:
400 the request body is not valid JSON
422 the request body is not valid JSON: Syntax error
400 the request body is not valid JSON
422 the request body is not valid JSON: Malformed UTF-8 characters, possibly incorrectly encoded
400 the request body is not valid JSON
422 the request body is not valid JSON: Maximum stack depth exceeded
