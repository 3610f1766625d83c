--TEST--
fillGlobals(uploadBytes:) shows larger files with UPLOAD_ERR_INI_SIZE, and the others as they are
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', function (Request $r) {
    $r->fillGlobals([], $r->query('bytes') === null ? null : (int) $r->query('bytes'));
    $moved = array_map(fn (string $path) => $path !== '' && move_uploaded_file($path, __DIR__ . '/moved'), $_FILES['f']['tmp_name']);
    return Response::json([$_FILES['f']['name'], $_FILES['f']['error'], $_FILES['f']['size'], $moved, $_POST]);
});
$server->get('/mistake', function (Request $r) { $r->fillGlobals([], -1); });
PHP, 'workers: 1, limits: new Limits(handlers: 1)');
$connection = $server->connect();
$part = fn (string $name, string $text) => "--x\r\nContent-Disposition: form-data; name=\"f[]\"; filename=\"$name\"\r\n\r\n$text\r\n";
$body = $part('small', 'small') . $part('large', str_repeat('l', 1001)) . $part('fits', str_repeat('f', 1000))
    . "--x\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nTitle\r\n--x--\r\n";
foreach (['/?bytes=1000', '/', '/?bytes=0'] as $target) {
    echo $connection->request('POST', $target, ['Content-Type' => 'multipart/form-data; boundary=x'], $body), "\n";
}
echo $connection->request('GET', '/mistake')->status, "\n";
?>
--EXPECT--
200 [["small","large","fits"],[0,1,0],[5,0,1000],[true,false,true],{"title":"Title"}]
200 [["small","large","fits"],[0,0,0],[5,1001,1000],[true,true,true],{"title":"Title"}]
200 [["small","large","fits"],[1,1,1],[0,0,0],[false,false,false],{"title":"Title"}]
500
