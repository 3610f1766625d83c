--TEST--
serverParams(): what a caller gives again and again is checked for names of headers each time that it may have changed
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Request, Response, Server};
use Fermata\Testing\Engine;

$others = ['APP_ENV' => 'test', 'LIST' => ['a']];
$seen = [];
$server = new Server();
$server->get('/', function (Request $request) use (&$others, &$seen) {
    $params = $request->serverParams($others);
    $params['APP_ENV'] = 'changed by a handler';
    $seen[] = [isset($params['HTTP_PROXY']), isset($params['HTTP_X_NAME']), $params['HTTP_HOST'], count($others)];
    return Response::text('');
});
$engine = new Engine($server);
$ask = function () use ($engine) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    $engine->run();
};
$ask();
$ask();
// The array is changed in place if there is no other reference.
$others['HTTP_PROXY'] = 'http://attacker';
$ask();
$ask();
unset($others['HTTP_PROXY']);
$ask();
for ($i = 0; $i < 100; $i++) {
    // Another array, possibly at the same address.
    $others = null;
    $others = $i % 2 ? ["HTTP_X_NAME" => "given $i"] : ["X_$i" => 'a'];
    $ask();
}
echo json_encode(array_slice($seen, 0, 5)), "\n";
var_dump(array_filter($seen, fn ($one) => $one[0] || $one[1] || $one[2] !== 'test'));
var_dump($others, count($seen));
?>
--EXPECT--
[[false,false,"test",2],[false,false,"test",2],[false,false,"test",3],[false,false,"test",3],[false,false,"test",2]]
array(0) {
}
array(1) {
  ["HTTP_X_NAME"]=>
  string(8) "given 99"
}
int(105)
