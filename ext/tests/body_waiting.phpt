--TEST--
A body's stream whose reader waits: others read, resize, close or unfilter it, and its handler ends
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
final class Slow extends php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            delay(0.03);
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
stream_filter_register('slow', Slow::class);
$try = function (callable $do) {
    try {
        return $do();
    } catch (Throwable $error) {
        return $error::class . ': ' . $error->getMessage();
    }
};
PHP;
$server = new TestServer($code . <<<'PHP'

$server->post('/chunk', function (Request $r) use ($try) {
    $in = $r->bodyStream();
    $first = async(fn () => strlen(fread($in, 4000)));
    delay(0.02);
    $second = async(function () use ($in, $try) { stream_set_chunk_size($in, 1 << 20); try { return $try(fn () => fread($in, 1)); } finally { error_log('has tried'); } });
    return Response::json([await($second), await($first)]);
}, streamBody: true);
PHP);
$connection = $server->connect();
$connection->send("POST /chunk HTTP/1.1\r\nHost: test\r\nContent-Length: 3000\r\n\r\n");
$server->wait('~has tried~');
$connection->send(str_repeat('x', 3000));
echo $connection->answer()->body, "\n";
var_dump($server->stop());

$server = new TestServer($code . <<<'PHP'

// Each opens php://input in the handler and returns a function with which a task reads it.
$read = [
    'fread' => function () { $in = fopen('php://input', 'r'); stream_filter_append($in, 'slow'); return fn () => fread($in, 10000); },
    'contents' => function () { $in = fopen('php://filter/read=slow/resource=php://input', 'r'); return fn () => stream_get_contents($in); },
    'object' => function () { $in = new SplFileObject('php://filter/read=slow/resource=php://input'); return fn () => $in->fread(10000); },
    'copy' => function () { $in = fopen('php://input', 'r'); stream_filter_append($in, 'slow'); return function () use ($in) { $to = fopen('php://memory', 'w+'); stream_copy_to_stream($in, $to); return stream_get_contents($to, null, 0); }; },
];
$seen = new ArrayObject;
foreach ($read as $name => $reads) {
    $server->post("/$name", function (Request $r) use ($reads, $try, $name, $seen) {
        $r->fillGlobals();
        $read = $reads();
        async(function () use ($read, $try, $name, $seen) { $seen[$name] = strlen($try($read)); });
        delay(0.001);
        return Response::text('x');
    });
}
$server->post('/unfilter', function (Request $r) use ($try) {
    $r->fillGlobals();
    $in = fopen('php://input', 'r');
    $filter = stream_filter_append($in, 'slow');
    $reader = async(fn () => strlen($try(fn () => fread($in, 10000))));
    delay(0.001);
    // Refused while a filter can wait; otherwise done before or after the read.
    $try(fn () => stream_filter_remove($filter));
    $try(fn () => @fclose($in));
    await($reader);
    return Response::text('x');
});
$server->post('/seen', function (Request $r) use ($seen) { $r->fillGlobals(); delay(0.05); return Response::json([$seen, strlen(file_get_contents('php://input'))]); });
PHP, 'workers: 1, limits: new Limits(handlers: 1)');
foreach (['fread', 'contents', 'object', 'copy', 'fread', 'unfilter'] as $name) {
    echo $name, ' ', $server->request('POST', "/$name", [], str_repeat('x', 5000)), "\n";
}
for ($until = microtime(true) + WAIT_S; substr_count($answer = $server->request('POST', '/seen', [], 'four'), ':') < 4 && microtime(true) < $until;) {
    usleep(10000);
}
echo $answer, "\n";
var_dump($server->stop());
echo $server->logged('~ended pid.*signal|exit code [^0]~');
?>
--EXPECT--
["Fermata\\Exception\\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\\Sync\\Mutex",3000]
int(0)
fread 200 x
contents 200 x
object 200 x
copy 200 x
fread 200 x
unfilter 200 x
200 [{"fread":5000,"contents":5000,"object":5000,"copy":5000},4]
int(0)
