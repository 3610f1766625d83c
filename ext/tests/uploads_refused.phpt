--TEST--
Uploads over a limit are 413 and name it, malformed ones 400, a directory that takes no files 500 with its name in the log alone
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-uploads-' . getmypid();
mkdir($folder);
$code = <<<'PHP'
$server->post('/', fn (Request $request) => Response::text(count($request->files()) . ' ' . count($request->forms())));
$server->post('/more', fn (Request $request) => Response::text((string) $request->file('f')->size), bodyBytes: 5000);
$server->post('/less', fn (Request $request) => Response::text((string) $request->file('f')->size), bodyBytes: 100);
PHP;
$server = new TestServer($code, environment: ['FERMATA_UPLOAD_DIRECTORY' => $folder, 'FERMATA_MULTIPART_BYTES_MAX' => '3000', 'FERMATA_UPLOAD_BYTES_MAX' => '1000',
    'FERMATA_UPLOADS_MAX' => '2', 'FERMATA_FORM_FIELDS_MAX' => '3', 'FERMATA_BODY_MEMORY_BYTES_MAX' => '4096']);
$type = ['Content-Type' => 'multipart/form-data; boundary=b'];
$part = fn (string $parameters, string $content) => "--b\r\nContent-Disposition: form-data; $parameters\r\n\r\n$content\r\n";
$file = fn (int $bytes) => $part('name=f; filename=x', str_repeat('x', $bytes));
$ask = fn (string $target, string $body, array $headers) => trim($server->request('POST', $target, $headers, $body)) . ' ' . temporary_files($folder);
foreach ([
    'fits' => ['/', $file(1000) . $file(1000)],
    'file' => ['/', $file(1001)],
    'total' => ['/', $file(1000) . $file(1000) . $part('name=a', str_repeat('x', 900))],
    'files' => ['/', str_repeat($file(1), 3)],
    'fields' => ['/', str_repeat($part('name=a', ''), 4)],
    'more' => ['/more', $file(4000)],
    'most' => ['/more', $file(5000)],
    'less' => ['/less', $file(50)],
    'field bytes' => ['/more', $part('name=a', str_repeat('x', 4096))],
] as $name => [$target, $body]) {
    echo "$name: ", trim($server->request('POST', $target, $type, "$body--b--")), ' | ', temporary_files($folder), "\n";
}
foreach (['multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary=b; boundary=c'] as $wrong) {
    echo trim($server->request('POST', '/', ['Content-Type' => $wrong], 'x')), "\n";
}
foreach (['x', "--b\r\n", "--b\r\n\r\n--b--", $file(1), "--bb--"] as $body) {
    echo trim($server->request('POST', '/', $type, $body)), "\n";
}
$server->stop();
remove_temporary_files($folder);
$server = new TestServer($code, environment: ['FERMATA_UPLOAD_DIRECTORY' => '/nonexistent']);
echo trim($server->request('POST', '/', $type, $file(1) . '--b--')), "\n";
echo substr($server->logged('/nonexistent/'), 33), "\n";
?>
--EXPECT--
fits: 200 1 0 | 0
file: 413 A file is larger than 1000 bytes (upload_bytes_max). | 0
total: 413 The body is larger than 3000 bytes. | 0
files: 413 The form has more than 2 files (uploads_max). | 0
fields: 413 The form has more than 3 fields (form_fields_max). | 0
more: 200 4000 | 0
most: 413 The body is larger than 5000 bytes. | 0
less: 413 The body is larger than 100 bytes. | 0
field bytes: 413 The fields of the form are larger than 4096 bytes (body_memory_bytes_max). | 0
400 The Content-Type multipart/form-data has no valid boundary; send 1 to 70 letters, digits or signs of '()+_,-./:=? as one.
400 The Content-Type multipart/form-data has no valid boundary; send 1 to 70 letters, digits or signs of '()+_,-./:=? as one.
400 The Content-Type multipart/form-data has no valid boundary; send 1 to 70 letters, digits or signs of '()+_,-./:=? as one.
400 The multipart body ends before its last delimiter; send all of it.
400 The multipart body ends before its last delimiter; send all of it.
400 A multipart part has no valid Content-Disposition; send form-data; name="..." exactly once.
400 The multipart body ends before its last delimiter; send all of it.
400 A multipart delimiter is malformed; end its line with CRLF, and the last with --.
500 The server cannot store the body; its log tells why.
[worker 0] cannot write a temporary file in /nonexistent: No such file or directory (os error 2); free space there or set upload_directory
