--TEST--
Uploads: fields and files by PHP's bracket rules; moveTo(), contents(); files are gone when the request is over
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

/** @param list<array{string, ?string, string}> $parts name, file name, content */
function form(array $parts): array
{
    $body = '';
    foreach ($parts as [$name, $filename, $content]) {
        $body .= "--b\r\nContent-Disposition: form-data; name=\"$name\"" . ($filename === null ? '' : "; filename=\"$filename\"\r\nContent-Type: text/x")
            . "\r\n\r\n$content\r\n";
    }
    return [['Content-Type' => 'multipart/form-data; boundary=b'], "$body--b--\r\n"];
}
$folder = sys_get_temp_dir() . '/fermata-uploads-' . getmypid();
mkdir($folder);
$server = new TestServer(<<<'PHP'
$kept = [];
$server->post('/', function (Request $request) {
    $files = $request->files();
    array_walk_recursive($files, function (&$file) { $file = "$file->name $file->type $file->size " . substr($file->contents(), 0, 5); });
    return Response::json([$request->forms(), $request->form('a'), $files, $request->body()]);
});
$server->post('/move', function (Request $request) {
    $file = $request->file('f');
    $to = dirname($file->path) . '/moved';
    $file->moveTo($to);
    $told = [file_get_contents($to), decoct(fileperms($to) & 0777), file_exists($file->path), unlink($to)];
    foreach ([fn () => $file->moveTo($to), fn () => $file->contents()] as $again) {
        try { $again(); } catch (Fermata\Exception\MisuseError $error) { $told[] = $error->getMessage(); }
    }
    return Response::json($told);
});
$server->post('/elsewhere', function (Request $request) {
    $to = '/dev/shm/fermata-upload-test-' . getmypid();
    $request->file('f')->moveTo($to);
    return Response::json([file_get_contents($to), unlink($to), file_exists($request->file('f')->path)]);
});
$server->post('/nowhere', function (Request $request) {
    try {
        @$request->file('f')->moveTo('/nonexistent/file');
    } catch (Fermata\Exception\UploadException $error) {
        return Response::text($error->getMessage() . ' ' . $request->file('f')->contents());
    }
});
$server->post('/list', fn (Request $request) => Response::json([$request->file('f') === null, array_map(fn ($file) => $file->name, $request->files()['f'])]));
$server->post('/keep', function (Request $request) use (&$kept) { $kept = [$request, $request->file('f')]; return Response::accepted(); });
$server->get('/kept', function () use (&$kept) { return Response::json([$kept[0]->forms(), $kept[0]->file('f')->contents(), $kept[1]->contents()]); });
$server->post('/file', function (Request $request) use (&$kept) { $kept = $request->file('f'); return Response::accepted(); });
$server->get('/file', function () use (&$kept) {
    try { return Response::text(@$kept->contents()); } catch (Fermata\Exception\UploadException $error) { return Response::text(preg_replace('~ \(.*~', '', $error->getMessage())); }
});
$server->get('/drop', function () use (&$kept) { $kept = null; return Response::accepted(); });
$server->post('/throw', fn (Request $request) => throw new Exception($request->file('f')->name));
$server->post('/exit', fn (Request $request) => $request->files() && exit(1));
$server->post('/fatal', function (Request $request) { $request->files(); eval('final class Twice {} final class Twice {}'); });
PHP, environment: ['FERMATA_UPLOAD_DIRECTORY' => $folder, 'VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
$left = fn () => temporary_files($folder);
$connection = $server->connect();
$large = str_repeat("0123456789\r\n--", 100_000);
$ask = fn (string $target, array $parts) => $connection->request('POST', $target, ...form($parts));
echo $ask('/', [['a', null, 'one'], ['b[]', null, 'x'], ['b[]', null, 'y'], ['c[d][e]', null, ''], ['a.b', null, 'dot'],
    ['f', 'x.txt', $large], ['g[]', '../../1.txt', 'first'], ['g[]', 'C:\\2.txt', 'second'], ['none', '', '']]), "\n";
echo $ask('/', []), "\n";
echo $connection->request('POST', '/', ['Content-Type' => 'multipart/form-data; boundary=b']), "\n";
foreach (['/move', '/elsewhere', '/nowhere'] as $target) {
    echo $target, ' ', $ask($target, [['f', 'x', 'content']]), "\n";
}
echo $ask('/list', [['f[]', 'x', '1'], ['f[]', 'y', '2']]), ' ', $left(), "\n";
echo $ask('/keep', [['a', null, 'b'], ['f', 'x', 'content']])->status, ' ', $left(), ' ', $connection->request('GET', '/kept'), "\n";
echo $connection->request('GET', '/drop')->status, ' ', $left(), "\n";
echo $ask('/file', [['f', 'x', 'content']])->status, ' ', $left(), ' ', $connection->request('GET', '/file'), "\n";
foreach (['/throw', '/exit', '/nothing'] as $target) {
    echo $target, ' ', $ask($target, [['f', 'x', 'content']])->status, ' ', $left(), "\n";
}
// A client leaves in the middle of its upload.
[$headers, $body] = form([['f', 'x', $large]]);
$other = $server->connect();
$other->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {$headers['Content-Type']}\r\nContent-Length: " . strlen($body) . "\r\n\r\n" . substr($body, 0, 500_000));
for ($i = 0; $i < 1000 && $left() === 0; $i++) { usleep(2000); }
echo $left(), ' ';
$other->cut();
for ($i = 0; $i < 1000 && $left() > 0; $i++) { usleep(2000); }
echo $left(), "\n";
echo $ask('/fatal', [['f', 'x', 'content']])->status, "\n";
$server->stop();
echo $left(), "\n";
remove_temporary_files($folder);
?>
--EXPECT--
200 [{"a":"one","b":["x","y"],"c":{"d":{"e":""}},"a_b":"dot"},"one",{"f":"x.txt text/x 1400000 01234","g":["1.txt text/x 5 first","2.txt text/x 6 secon"]},""]
200 [[],null,[],""]
200 [[],null,[],""]
/move 200 ["content","644",false,true,"the uploaded file was moved already; use the path that moveTo() was given","the uploaded file was moved already; use the path that moveTo() was given"]
/elsewhere 200 ["content",true,false]
/nowhere 200 the uploaded file cannot be moved (/nonexistent/file): No such file or directory content
200 [true,["x","y"]] 0
202 1 200 [{"a":"b"},"content","content"]
202 0
202 0 200 the uploaded file cannot be read, for it lasts as long as its request
/throw 500 0
/exit 500 0
/nothing 404 0
1 0
500
0
