--TEST--
Request::fillGlobals(): names in $_COOKIE are made as PHP makes them, and a file whose field has brackets out of place is not in $_FILES
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/cookies', function (Request $r) {
    $r->fillGlobals();
    return Response::json([$_COOKIE, $_REQUEST]);
});
$server->post('/files', function (Request $r) {
    $r->fillGlobals();
    return Response::json(array_map(fn (array $file) => [$file['name'], is_string($file['tmp_name']) && is_uploaded_file($file['tmp_name'])], $_FILES));
});
PHP, 'workers: 1, limits: new Limits(handlers: 1)', ['-drequest_order=C', '-dmax_input_vars=6']);

foreach ([
    'a[b]=1; a[c][]=2; a[c][]=3; a.b=4; d e=5',
    'one=first; one=second; two=x%20y%3B ; three',
    '=none; ; a=1; __Host-x=2; __Host.x=3; x[=4',
    'a=1; b=2; c=3; d=4; e=5; f=6; g=7',
] as $cookies) {
    echo $server->get('/cookies', ['Cookie' => $cookies]), "\n";
}
echo $server->get('/cookies', ['Cookie' => ['a=1', 'a=2; b=3']]), "\n";
// No cookies, and none of the previous request.
echo $server->get('/cookies'), "\n";

$fields = ['plain', 'list[]', 'list[]', 'deep[a][b]', 'after[]x', 'open[', 'twice[[x]', 'wrong]', 'between[a]b[c]', 'nested[[a]]'];
$form = implode('', array_map(fn (string $field) => "--x\r\nContent-Disposition: form-data; name=\"$field\"; filename=\"$field.txt\"\r\n\r\n1\r\n", $fields))
    . implode('', array_map(fn (string $field) => "--x\r\nContent-Disposition: form-data; name=\"$field\"; filename=\"\"\r\n\r\n\r\n", ['none', 'none[]x'])) . "--x--\r\n";
echo $server->connect()->request('POST', '/files', ['Content-Type' => 'multipart/form-data; boundary=x'], $form), "\n";

// Names that PHP would store in one hash chain.
$server = new TestServer(<<<'PHP'
$server->get('/', function (Request $r) {
    $r->fillGlobals();
    return Response::text(count($_COOKIE['a']) . "\n");
});
PHP, 'workers: 1, limits: new Limits(handlers: 1, headerBytes: 1_000_000)', ['-dmax_input_vars=100000']);
foreach ([1, 1 << 20] as $step) {
    echo $server->get('/', ['Cookie' => implode(';', array_map(fn (int $n) => 'a[' . $n * $step . ']=', range(1, 20_000)))]);
}
?>
--EXPECT--
200 [{"a":{"b":"1","c":["2","3"]},"a_b":"4","d_e":"5"},{"a":{"b":"1","c":["2","3"]},"a_b":"4","d_e":"5"}]
200 [{"one":"first","two":"x y; ","three":""},{"one":"first","two":"x y; ","three":""}]
200 [{"a":"1","__Host-x":"2","__Host_x":"3","x_":"4"},{"a":"1","__Host-x":"2","__Host_x":"3","x_":"4"}]
200 [{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"},{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"}]
200 [{"a":"1","b":"3"},{"a":"1","b":"3"}]
200 [[],[]]
200 {"plain":["plain.txt",true],"list":[["list[].txt","list[].txt"],false],"deep":[{"a":{"b":"deep[a][b].txt"}},false],"none":["",false]}
200 20000
400 there are too many names that PHP stores in one place
