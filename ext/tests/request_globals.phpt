--TEST--
Request::serverParams() and fillGlobals(): superglobals, header(), sessions, uploads and exit() as with PHP-FPM, for one handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
session_save_path(__DIR__);
$sent = fn (string $text, int $status = 200) => array_reduce(headers_list(), function (Response $response, string $line) {
    [$name, $value] = explode(': ', $line, 2);
    return $response->withAddedHeader($name, $value);
}, Response::text($text, $status));
$server->any('/params', fn (Request $r) => Response::json($r->serverParams(['SCRIPT_NAME' => '/index.php', 'HTTP_FORGED' => 'x', 'HTTPS' => 'on', 'REQUEST_METHOD' => 'x'])));
$server->any('/globals', function (Request $r) {
    $r->fillGlobals(['DOCUMENT_ROOT' => '/srv']);
    return Response::json([$_GET, $_POST, $_COOKIE, $_REQUEST, $_SERVER['DOCUMENT_ROOT'], $_SERVER['REQUEST_METHOD'], file_get_contents('php://input')]);
});
$server->get('/none', fn () => Response::json([$_GET, $_COOKIE, $_SERVER['HTTP_X'] ?? null, $_SESSION ?? null, headers_list(), http_response_code(), session_id(), file_get_contents('php://input'), ini_get('session.save_handler'), session_name(), ini_get('session.gc_maxlifetime')]));
$server->post('/files', function (Request $r) {
    $r->fillGlobals();
    $files = $_FILES;
    $moved = move_uploaded_file($files['one']['tmp_name'], __DIR__ . '/moved');
    $again = move_uploaded_file(__DIR__ . '/moved', __DIR__ . '/elsewhere');
    array_walk_recursive($files, function (&$value, $key) { if (is_string($value) && str_starts_with($value, '/')) { $value = 'path'; } });
    return Response::json([$files, $moved, $again, is_uploaded_file($_FILES['many']['tmp_name'][1]), file_get_contents(__DIR__ . '/moved'), $_POST]);
});
$server->get('/session', function (Request $r) use ($sent) {
    $r->fillGlobals();
    session_name('own');
    session_start(['cookie_samesite' => 'Lax']);
    $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
    $count = $_SESSION['count'];
    if ($r->query('destroy')) { session_destroy(); }
    return $sent("$count");
});
$server->get('/custom', function (Request $r) use ($sent) {
    $r->fillGlobals();
    ini_set('session.gc_maxlifetime', '77');
    session_set_save_handler(new class implements SessionHandlerInterface {
        public function open(string $path, string $name): bool { return true; }
        public function close(): bool { return true; }
        public function read(string $id): string|false { return 'data|s:6:"custom";'; }
        public function write(string $id, string $data): bool { file_put_contents(__DIR__ . '/custom', $data); return true; }
        public function destroy(string $id): bool { return true; }
        public function gc(int $lifetime): int|false { return 0; }
    });
    session_name('other');
    session_start();
    $_SESSION['more'] = 1;
    delay(0.001);
    return $sent($_SESSION['data']);
});
$server->get('/custom-written', fn () => Response::text(file_get_contents(__DIR__ . '/custom')));
$server->get('/exit', function (Request $r) {
    $r->fillGlobals();
    http_response_code(418);
    header('X-One: 1');
    header('Content-Length: 7');
    setcookie('a', 'b');
    ob_start();
    echo 'printed ';
    ob_start();
    echo 'and left';
    exit(1);
});
$server->get('/location', function (Request $r) { $r->fillGlobals(); header('Location: /there'); exit; });
$server->get('/throws', function (Request $r) { $r->fillGlobals(); header('X-Left: 1'); session_start(); $_SESSION['user'] = 'secret'; throw new Exception('thrown'); });
$server->get('/waits', function (Request $r) { $r->fillGlobals(); session_start(); $_SESSION['who'] = $r->query('who'); delay(0.02); return Response::text($_GET['who'] . $_SESSION['who'] . await(async(fn () => json_encode($_SESSION ?? null)))); });
$server->get('/bare', function (Request $r) { $r->fillGlobals(); echo 'printed ', $r->query('by'); ob_start(); echo ' and'; ob_end_flush(); ob_start(); echo ' left'; exit; });
$server->get('/callback', function (Request $r) use ($sent) { $r->fillGlobals(); header_register_callback(fn () => header('X-Kept: ' . $r->query('who'))); return $sent(''); });
$server->get('/sends', function (Request $r) use ($sent) { $r->fillGlobals(); echo 'x'; return $sent('sent'); });
$kept = null;
$server->post('/keeps', function (Request $r) use (&$kept) { $r->fillGlobals(); $kept = fopen('php://input', 'r'); stream_set_read_buffer($kept, 0); return Response::text(fread($kept, 2)); });
$server->post('/kept', function (Request $r) use (&$kept) { $r->fillGlobals(); try { return Response::json(fread($kept, 9)); } catch (TypeError $e) { return Response::text($e::class); } });
$server->post('/during', function (Request $r) use ($sent) {
    $r->fillGlobals();
    header('X-Own: 1');
    session_id('secretid');
    session_start();
    $_SESSION['user'] = 'secret';
    $seen = await(async(function () {
        $seen = [headers_list(), file_get_contents('php://input'), session_status()];
        foreach (['session_id', 'session_name', 'session_destroy', 'session_write_close', 'session_commit', 'session_abort', 'session_reset', 'session_unset', 'session_encode', 'session_gc', 'session_create_id', 'session_start'] as $call) {
            try { $seen[] = [$call, $call()]; } catch (Fermata\Exception\MisuseError) { }
        }
        return $seen;
    }));
    return $sent(json_encode([$seen, $_SESSION, session_id(), session_status(), file_get_contents('php://input')]));
});
$server->get('/task', fn (Request $r) => Response::text(await(async(function () use ($r) { try { $r->fillGlobals(); return 'filled'; } catch (Throwable $e) { return $e::class; } }))));
PHP, 'workers: 1, limits: new Limits(handlers: 1)');

$params = json_decode($server->connect()->request('POST', '/params?a=1&b[]=2', ['X-Name' => ['one', 'two'], 'X_Name' => 'forged', 'Proxy' => 'evil', 'Cookie' => ['a=1', 'b=2'],
    'Authorization' => 'Basic ' . base64_encode('ada:se:cret'), 'Content-Type' => 'text/x'], 'body')->body, true);
$port = $params['SERVER_PORT'];
echo json_encode(array_diff_key($params, array_flip(['REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'REMOTE_PORT', 'SERVER_PORT'])), JSON_UNESCAPED_SLASHES), "\n";
var_dump(abs($params['REQUEST_TIME_FLOAT'] - microtime(true)) < WAIT_S, is_int($params['REQUEST_TIME']), (int) $port > 0, (int) $params['REMOTE_PORT'] > 0);
$old = $server->connect();
$old->send("GET /params HTTP/1.0\r\n\r\n");
echo json_decode($old->answer()->body, true)['SERVER_PROTOCOL'], "\n";

echo $server->connect()->request('POST', '/globals?q=1&both=get', ['Cookie' => 'c=3', 'Content-Type' => 'application/x-www-form-urlencoded'], 'p=2&both=post'), "\n";
echo $server->get('/none?q=1'), "\n";
$part = fn (string $name, string $file, string $text) => "--x\r\nContent-Disposition: form-data; name=\"$name\"; filename=\"$file\"\r\nContent-Type: text/plain\r\n\r\n$text\r\n";
$form = $part('one', 'a.txt', 'first') . $part('many[]', 'b.txt', 'second') . $part('many[]', 'c.txt', 'third') . $part('deep[a][b]', 'd.txt', '4') . $part('none', '', '')
    . $part('same', '', '') . $part('same', 'e.txt', '5') . $part('rows[]', '', '') . $part('rows[]', 'f.txt', '6')
    . "--x\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n--x--\r\n";
echo $server->connect()->request('POST', '/files', ['Content-Type' => 'multipart/form-data; boundary=x'], $form), "\n";

$first = $server->get('/session');
preg_match('/^own=([^;]+)/', $first->headers['set-cookie'][0], $cookie);
echo $first, ' ', preg_replace('/=[^;]+/', '=ID', $first->headers['set-cookie'][0], 1), ' ', $first->header('cache-control'), "\n";
echo $server->get('/session', ['Cookie' => "own=$cookie[1]"]), ' ', $server->get('/session'), ' ', $server->get('/session', ['Cookie' => "own=$cookie[1]"]), "\n";
echo $server->get('/none', ['Cookie' => "own=$cookie[1]"]), "\n";
echo $server->get('/custom'), ' ', $server->get('/custom-written'), ' ', $server->get('/session', ['Cookie' => "own=$cookie[1]"]), "\n";
echo $server->get('/session?destroy=1', ['Cookie' => "own=$cookie[1]"]), ' ', $server->get('/session', ['Cookie' => "own=$cookie[1]"]), "\n";
foreach (['/exit', '/location', '/throws', '/none', '/task'] as $target) {
    $answer = $server->get($target);
    echo strtok((string) $answer, "\n"), ' ', json_encode(array_diff_key($answer->headers, array_flip(['date', 'content-length', 'connection', 'vary'])), JSON_UNESCAPED_SLASHES), "\n";
}
$clients = array_map(fn (string $who) => [$server->connect(), $who], ['a', 'b', 'c']);
array_map(fn (array $client) => $client[0]->start('GET', "/waits?who=$client[1]"), $clients);
echo implode(' ', array_map(fn (array $client) => $client[0]->answer(), $clients)), "\n";
array_map(unlink(...), array_merge(...array_map(fn ($name) => glob("{$server->folder()}/$name"), ['sess_*', 'moved', 'custom'])));

echo $server->get('/bare?by=a'), ' ', $server->get('/bare?by=b'), "\n";
$server->get('/callback?who=a');
echo json_encode($server->get('/sends')->headers['x-kept'] ?? null), ' ';
echo $server->connect()->request('POST', '/keeps', [], 'secret'), ' ', $server->connect()->request('POST', '/kept', [], 'other'), ' ';
echo $server->connect()->request('POST', '/keeps'), ' ', $server->connect()->request('POST', '/kept', [], 'other'), "\n";
$during = $server->connect()->request('POST', '/during', [], 'body');
echo $during, ' ', $during->header('x-own'), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));

var_dump(substr_count($server->log(), 'what is printed in a handler reaches no client'));

$many = new TestServer("\$server->get('/', function (Request \$r) { \$r->fillGlobals(); });");
echo $many->get('/')->status, "\n";
preg_match("/MisuseError: [^:]*/", $many->log(), $found);
echo $found[0], "\n";
?>
--EXPECT--
{"SCRIPT_NAME":"/index.php","REQUEST_METHOD":"POST","GATEWAY_INTERFACE":"CGI/1.1","SERVER_SOFTWARE":"fermata","REQUEST_URI":"/params?a=1&b[]=2","QUERY_STRING":"a=1&b[]=2","HTTP_HOST":"test","HTTP_X_NAME":"one, two","HTTP_COOKIE":"a=1; b=2","HTTP_AUTHORIZATION":"Basic YWRhOnNlOmNyZXQ=","CONTENT_TYPE":"text/x","HTTP_CONTENT_TYPE":"text/x","CONTENT_LENGTH":"4","HTTP_CONTENT_LENGTH":"4","REMOTE_ADDR":"127.0.0.1","SERVER_ADDR":"127.0.0.1","SERVER_PROTOCOL":"HTTP/1.1","SERVER_NAME":"test","REQUEST_SCHEME":"http","PHP_AUTH_USER":"ada","REMOTE_USER":"ada","PHP_AUTH_PW":"se:cret"}
bool(true)
bool(true)
bool(true)
bool(true)
HTTP/1.0
200 [{"q":"1","both":"get"},{"p":"2","both":"post"},{"c":"3"},{"q":"1","both":"post","p":"2","c":"3"},"/srv","POST","p=2&both=post"]
200 [[],[],null,null,[],false,"","","files","PHPSESSID","1440"]
200 [{"one":{"name":"a.txt","full_path":"a.txt","type":"text/plain","tmp_name":"path","error":0,"size":5},"many":{"name":["b.txt","c.txt"],"full_path":["b.txt","c.txt"],"type":["text/plain","text/plain"],"tmp_name":["path","path"],"error":[0,0],"size":[6,5]},"deep":{"name":{"a":{"b":"d.txt"}},"full_path":{"a":{"b":"d.txt"}},"type":{"a":{"b":"text/plain"}},"tmp_name":{"a":{"b":"path"}},"error":{"a":{"b":0}},"size":{"a":{"b":1}}},"none":{"name":"","full_path":"","type":"","tmp_name":"","error":4,"size":0},"same":{"name":"e.txt","full_path":"e.txt","type":"text/plain","tmp_name":"path","error":0,"size":1},"rows":{"name":["","f.txt"],"full_path":["","f.txt"],"type":["","text/plain"],"tmp_name":["","path"],"error":[4,0],"size":[0,1]}},true,false,true,"first",{"field":"value"}]
200 1 own=ID; path=/; SameSite=Lax no-store, no-cache, must-revalidate
200 2 200 1 200 3
200 [[],[],null,null,[],false,"","","files","PHPSESSID","1440"]
200 custom 200 data|s:6:"custom";more|i:1; 200 4
200 5 200 1
418 printed and left {"content-type":["text/html; charset=UTF-8"],"x-one":["1"],"set-cookie":["a=b"]}
302  {"content-type":["text/html; charset=UTF-8"],"location":["/there"]}
500 The server has failed to answer; its log tells why. {"content-type":["text/plain; charset=utf-8"]}
200 [[],[],null,null,[],false,"","","files","PHPSESSID","1440"] {"content-type":["application/json"]}
200 Fermata\Exception\MisuseError {"content-type":["text/plain; charset=utf-8"]}
200 aanull 200 bbnull 200 ccnull
200 printed a and left 200 printed b and left
null 200 se 200 TypeError 200  200 TypeError
200 [[[],"",1],{"user":"secret"},"secretid",2,"body"] 1
int(1)
500
MisuseError: the superglobals show one request for a process
