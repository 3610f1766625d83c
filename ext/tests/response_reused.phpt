--TEST--
The object of one answer serves the next, unless somebody could see it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$kept = [];
$weak = null;
$id = 0;
$server->get('/plain', fn (Request $r) => Response::json($r->query('q')));
$server->get('/text', fn (Request $r) => Response::text('text')->withHeader('X-Own', 'own'));
$server->get('/empty', fn (Request $r) => Response::noContent());
$server->get('/keep', function (Request $r) use (&$kept) { return $kept[] = Response::json($r->query('q')); });
$server->get('/kept', function (Request $r) use (&$kept) {
    return Response::json(array_map(fn ($k) => $k->status() . $k->body(), $kept));
});
$server->get('/again', function (Request $r) use (&$kept) { return $kept[0]; });
$server->get('/weak', function (Request $r) use (&$weak) {
    $response = Response::text('weak');
    $weak = WeakReference::create($response);
    return $response;
});
$server->get('/weak/get', function (Request $r) use (&$weak) {
    return Response::json([Response::text('other')->body(), $weak->get()?->body()]);
});
$server->get('/two', function (Request $r) {
    [$a, $b] = [Response::text('a'), Response::html('b')];
    return Response::json([$a->body(), $b->body(), $a->header('content-type'), $b->header('content-type')]);
});
$server->get('/dump', function (Request $r) { $response = Response::json(1); (array) $response; return $response; });
$server->get('/throw', function (Request $r) { $response = Response::json(1); throw new Exception('no'); });
PHP);
$connection = $server->connect();
foreach ([
    '/plain?q=1', '/plain?q=2', '/text', '/plain?q=3', '/empty', '/plain?q=4', '/keep?q=5', '/plain?q=6', '/keep?q=7',
    '/plain?q=8', '/kept', '/again', '/plain?q=9', '/kept', '/weak', '/plain?q=10', '/weak/get', '/two', '/dump', '/two',
    '/throw', '/plain?q=11',
] as $target) {
    $answer = $connection->request('GET', $target);
    echo $target, ' ', $answer->status, ' ', rtrim($answer->body), ' ', $answer->header('content-type'), ' ', $answer->header('x-own'), "\n";
}
var_dump($server->stop());
?>
--EXPECTF--
/plain?q=1 200 "1" application/json%S
/plain?q=2 200 "2" application/json%S
/text 200 text text/plain; charset=utf-8 own
/plain?q=3 200 "3" application/json%S
/empty 204 %S
/plain?q=4 200 "4" application/json%S
/keep?q=5 200 "5" application/json%S
/plain?q=6 200 "6" application/json%S
/keep?q=7 200 "7" application/json%S
/plain?q=8 200 "8" application/json%S
/kept 200 ["200\"5\"","200\"7\""] application/json%S
/again 200 "5" application/json%S
/plain?q=9 200 "9" application/json%S
/kept 200 ["200\"5\"","200\"7\""] application/json%S
/weak 200 weak text/plain; charset=utf-8%S
/plain?q=10 200 "10" application/json%S
/weak/get 200 ["other",null] application/json%S
/two 200 ["a","b","text/plain; charset=utf-8","text/html; charset=utf-8"] application/json%S
/dump 200 1 application/json%S
/two 200 ["a","b","text/plain; charset=utf-8","text/html; charset=utf-8"] application/json%S
/throw 500 The server has failed to answer; its log tells why. text/plain; charset=utf-8%S
/plain?q=11 200 "11" application/json%S
int(0)
