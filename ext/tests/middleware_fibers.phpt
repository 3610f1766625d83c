--TEST--
Middleware, error handlers and upload handlers may wait: requests take turns, each with its own attributes, files and answer
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-uploads-' . getmypid();
mkdir($folder);
$server = new TestServer(<<<'PHP'
$server->use(function (Request $request, callable $next) {
    $request->withAttribute('id', $request->query('id'));
    Fermata\delay((int) $request->query('before', '0') / 1000);
    $answer = $next($request);
    Fermata\delay((int) $request->query('after', '0') / 1000);
    return $answer->withHeader('Id', $request->attribute('id'));
});
$server->error(function (Throwable $error, Request $request) {
    Fermata\delay(0.02);
    return Response::text("{$error->getMessage()} {$request->attribute('id')}", 503);
});
$server->get('/', fn (Request $request) => Response::text("handled {$request->attribute('id')} {$request->query('id')}"));
$server->get('/throw', fn (Request $request) => throw new Exception('thrown'));
$server->post('/upload', function (Request $request) {
    $before = $request->file('f')->contents();
    Fermata\delay(0.03);
    return Response::text("$before {$request->file('f')->contents()} {$request->form('a')}");
});
PHP, environment: ['FERMATA_UPLOAD_DIRECTORY' => $folder]);
$form = fn (string $content) => [['Content-Type' => 'multipart/form-data; boundary=b'],
    "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nfield $content\r\n--b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\n$content\r\n--b--\r\n"];
$connections = [];
foreach (['/?id=1&before=60', '/?id=2&after=40', '/throw?id=3', '/nothing?id=4&before=30', '/throw?id=5&before=10'] as $target) {
    $connections[$target] = $server->connect();
    $connections[$target]->start('GET', $target);
}
foreach (['one', 'two'] as $content) {
    $connections[$content] = $server->connect();
    $connections[$content]->start('POST', "/upload?id=$content", ...$form($content));
}
$quick = $server->get('/?id=6');
echo "6: $quick {$quick->header('id')}\n";
foreach ($connections as $target => $connection) {
    $answer = $connection->answer();
    echo rtrim("$target: " . trim($answer) . " {$answer->header('id')}"), "\n";
}
// A client leaves while its files are in use.
$connection = $server->connect();
$connection->start('POST', '/upload?id=7', ...$form('three'));
usleep(5000);
$connection->cut();
for ($i = 0; $i < 2000 && temporary_files($folder) > 0; $i++) { usleep(2000); }
echo temporary_files($folder), "\n";
$server->stop();
remove_temporary_files($folder);
?>
--EXPECT--
6: 200 handled 6 6 6
/?id=1&before=60: 200 handled 1 1 1
/?id=2&after=40: 200 handled 2 2 2
/throw?id=3: 503 thrown 3
/nothing?id=4&before=30: 404 Nothing is here. 4
/throw?id=5&before=10: 503 thrown 5
one: 200 one one field one one
two: 200 two two field two two
0
