--TEST--
bodyStream(): small bodies from memory, large ones from a temporary file with flat memory; body(), json() and forms() read it too
--EXTENSIONS--
fermata
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die('skip counts the Zend allocator\'s bytes'); ?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-bodies-' . getmypid();
mkdir($folder);
$server = new TestServer(<<<'PHP'
$limit = 30_000_000;
$server->post('/stream', function (Request $request) {
    $before = memory_get_usage();
    memory_reset_peak_usage();
    $hash = hash_init('crc32b');
    $stream = $request->bodyStream();
    $bytes = 0;
    while (!feof($stream)) {
        $piece = fread($stream, 65536);
        $bytes += strlen($piece);
        hash_update($hash, $piece);
    }
    return Response::json([$bytes, hash_final($hash), memory_get_peak_usage() - $before < 1_000_000]);
}, bodyBytes: $limit);
$server->post('/body', fn (Request $request) => Response::json([strlen($request->body()), hash('crc32b', $request->body()), fread($request->bodyStream(), 5)]), bodyBytes: $limit);
$server->post('/json', fn (Request $request) => Response::json(strlen($request->json()['a'])), bodyBytes: $limit);
$server->post('/form', fn (Request $request) => Response::json([strlen($request->form('a')), $request->form('b')]), bodyBytes: $limit);
$server->post('/twice', function (Request $request) {
    $first = $request->bodyStream();
    return Response::json([stream_get_contents($first) === stream_get_contents($request->bodyStream()), @fwrite($first, 'x')]);
}, bodyBytes: $limit);
PHP, environment: ['FERMATA_UPLOAD_DIRECTORY' => $folder]);
$connection = $server->connect();
$large = str_repeat('0123456789abcdef', 1_500_000);
foreach (['', 'small', $large] as $body) {
    echo strlen($body), ' ', hash('crc32b', $body), "\n";
    foreach (['/stream', '/body', '/twice'] as $target) {
        echo $target, ' ', $connection->request('POST', $target, [], $body), "\n";
    }
    if ($body !== '') {
        $chunks = implode('', array_map(fn ($piece) => dechex(strlen($piece)) . "\r\n$piece\r\n", str_split($body, 1_000_000)));
        $connection->send("POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{$chunks}0\r\n\r\n");
        echo 'chunked ', $connection->answer(), "\n";
    }
}
echo $connection->request('POST', '/json', [], '{"a":"' . $large . '"}'), "\n";
echo $connection->request('POST', '/form', ['Content-Type' => 'application/x-www-form-urlencoded'], "a=$large&b=c"), "\n";
echo temporary_files($folder), "\n";
remove_temporary_files($folder);
?>
--EXPECT--
0 00000000
/stream 200 [0,"00000000",true]
/body 200 [0,"00000000",""]
/twice 200 [true,false]
5 7545ea13
/stream 200 [5,"7545ea13",true]
/body 200 [5,"7545ea13","small"]
/twice 200 [true,false]
chunked 200 [5,"7545ea13",true]
24000000 4acd8d46
/stream 200 [24000000,"4acd8d46",true]
/body 200 [24000000,"4acd8d46","01234"]
/twice 200 [true,false]
chunked 200 [24000000,"4acd8d46",true]
200 24000000
200 [24000000,"c"]
0
