--TEST--
A Request kept beyond its handler owns a copy; weak references do not see the next request
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$kept = [];
$weak = null;
function told(Request $r): array
{
    return [$r->method(), $r->path(), $r->target(), $r->query('q'), $r->route('id'), $r->header('X-Test'), $r->cookie('c'),
        $r->body(), $r->headers()['host'] ?? null, $r->remoteAddress(), $r->lastEventId()];
}
$server->post('/keep/{id}', function (Request $r) use (&$kept) { $kept[] = $r; return Response::accepted(); });
$server->post('/touch/{id}', function (Request $r) use (&$kept) { told($r); $kept[] = $r; return Response::accepted(); });
$server->get('/kept/{id}', function (Request $r) use (&$kept) { return Response::json(array_map(told(...), $kept)); });
$server->get('/drop', function () use (&$kept) { $kept = []; return Response::accepted(); });
$server->get('/weak', function (Request $r) use (&$weak) { $weak = WeakReference::create($r); return Response::accepted(); });
$server->get('/weak/get', function () use (&$weak) { return Response::json($weak->get()?->path()); });
$server->get('/unknown', function () use (&$kept) { return Response::text($kept[0]->route('nothing')); });
PHP);
$connection = $server->connect();
$connection->request('POST', '/keep/1?q=a', ['X-Test' => 'one', 'Cookie' => 'c=d', 'Last-Event-ID' => 'e'], 'first body');
$connection->request('POST', '/touch/2?q=b', [], '');
$connection->request('GET', '/kept/3?' . str_repeat('x', 4000));
foreach (json_decode($connection->request('GET', '/kept/4')->body, true) as $request) {
    echo json_encode($request, JSON_UNESCAPED_SLASHES), "\n";
}
echo $connection->request('GET', '/unknown')->status, "\n";
echo $connection->request('GET', '/drop')->status, "\n";
echo $connection->request('GET', '/weak')->status, ' ', $connection->request('GET', '/weak/get')->body, "\n";
var_dump($server->stop());
?>
--EXPECT--
["POST","/keep/1","/keep/1?q=a","a","1","one","d","first body",["test"],"127.0.0.1","e"]
["POST","/touch/2","/touch/2?q=b","b","2",null,null,"",["test"],"127.0.0.1",null]
500
202
202 null
int(0)
