--TEST--
Request::earlyHints() sends 103 at once, ahead of the answer; not to HTTP/1.0, and not behind the answer
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$go = __DIR__ . '/go';
$server->get('/page', function (Request $r) use ($go) {
    $sent = $r->earlyHints(['Link' => ['</a.css>; rel=preload; as=style', '</b.js>; rel=preload; as=script']]);
    $again = $r->earlyHints(['Link' => '</c.js>; rel=preload']);
    // The client creates the file when it has received the hints, so they were sent before the handler's end.
    while (!file_exists($go)) {
        $r->query('wait') === 'fiber' ? delay(0.002) : usleep(2000);
        clearstatcache();
    }
    unlink($go);
    return Response::json([$sent, $again, $r->earlyHints([])]);
});
$server->get('/late', function (Request $r) {
    return Response::output(function () use ($r) { echo json_encode($r->earlyHints(['Link' => '<x>'])); });
});
$server->get('/old', fn (Request $r) => Response::json($r->earlyHints(['Link' => '<x>'])));
$server->get('/mistake', function (Request $r) {
    $messages = [];
    foreach ([['Link' => "a\r\nb"], ['Content-Length' => '1'], ['x'], ['Link' => 1]] as $given) {
        try {
            $r->earlyHints($given);
        } catch (Error $e) {
            $messages[] = get_class($e);
        }
    }
    return Response::json($messages);
});
PHP, 'workers: 1', ['-dfermata.blocking_call_ms=0']);
$connection = $server->connect();
foreach (['/page', '/page?wait=fiber'] as $target) {
    $connection->start('GET', $target);
    foreach ([1, 2] as $_) {
        [$status, $headers] = $connection->head();
        echo $status, ' ', json_encode($headers, JSON_UNESCAPED_SLASHES), "\n";
    }
    touch($server->folder() . '/go');
    echo $connection->answer(), "\n";
}
$connection->start('GET', '/late');
echo $connection->head()[0], ' ', $connection->chunks(), "\n";
echo $connection->request('GET', '/mistake'), "\n";
// Of two pipelined requests, the hints of the second follow the response to the first.
$connection->send("GET /mistake HTTP/1.1\r\nHost: test\r\n\r\nGET /page HTTP/1.1\r\nHost: test\r\n\r\n");
echo $connection->answer()->status, ' ', $connection->head()[0], ' ', $connection->head()[0], ' ';
touch($server->folder() . '/go');
echo $connection->answer()->status, "\n";
$old = $server->connect();
$old->send("GET /old HTTP/1.0\r\n\r\n");
echo $old->answer(), "\n";
// A client that leaves while hints are sent has no effect on others.
$gone = $server->connect();
$gone->start('GET', '/page?wait=fiber');
$gone->head();
$gone->cut();
touch($server->folder() . '/go');
echo $connection->request('GET', '/mistake')->status, "\n";
?>
--EXPECT--
103 {"link":["</a.css>; rel=preload; as=style","</b.js>; rel=preload; as=script"]}
103 {"link":["</c.js>; rel=preload"]}
200 [true,true,false]
103 {"link":["</a.css>; rel=preload; as=style","</b.js>; rel=preload; as=script"]}
103 {"link":["</c.js>; rel=preload"]}
200 [true,true,false]
200 false
200 ["Fermata\\Exception\\MisuseError","Fermata\\Exception\\MisuseError","TypeError","TypeError"]
200 103 103 200
200 false
200
