--TEST--
A route with streamBody runs while the body arrives, and reads it piece by piece
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/now', fn () => Response::text('now'));
$server->post('/pieces', function (Request $request) {
    echo "begun\n";
    $pieces = [];
    while (($piece = $request->read()) !== null) {
        echo "got $piece\n";
        $pieces[] = $piece;
    }
    return Response::json([$request->method(), $request->header('x-a'), $pieces, $request->read()]);
}, bodyBytes: 20, streamBody: true);
$server->post('/small', fn (Request $request) => Response::json([$request->read(2), $request->read(2), $request->read(), $request->read(), $request->body()]));
$server->post('/body', fn (Request $request) => Response::json([$request->body(), $request->read(3), $request->read(), $request->read()]), streamBody: true);
$server->post('/json', fn (Request $request) => Response::json($request->json()), streamBody: true);
$server->post('/form', fn (Request $request) => Response::json($request->forms()), streamBody: true);
$server->post('/stream', function (Request $request) {
    $stream = $request->bodyStream();
    $lines = [];
    while (($line = fgets($stream)) !== false) {
        $lines[] = rtrim($line);
    }
    return Response::json([$lines, feof($stream)]);
}, streamBody: true);
$server->post('/mixed', function (Request $request) {
    $request->read(1);
    return Response::text($request->body());
}, streamBody: true);
$server->post('/two', function (Request $request) {
    $reader = async(fn () => $request->read());
    delay(0);
    try { $request->read(); } catch (Fermata\Exception\MisuseError $e) { echo $e->getMessage(), "\n"; }
    return Response::text(await($reader));
}, streamBody: true);
$server->post('/echo', fn (Request $request) => Response::stream((function () use ($request) {
    while (($piece = $request->read()) !== null) {
        yield strtoupper($piece);
    }
})()), streamBody: true);
$server->post('/refuse', fn () => Response::text('no', 403), streamBody: true);
$server->post('/bad/{caught}', function (Request $request) {
    try {
        while ($request->read() !== null);
    } catch (Throwable $e) {
        echo $e::class, " {$e->getCode()}: {$e->getMessage()}\n";
        if ($request->route('caught') === 'yes') {
            return Response::text('caught');
        }
        throw $e;
    }
    return Response::text('whole');
}, bodyBytes: 5, streamBody: true);
PHP, ini: ['-dfermata.body_timeout_ms=300', '-dfermata.body_rate_min=0']);

$until = function (string $text, int $times = 1) use ($server) {
    $deadline = microtime(true) + WAIT_S;
    while (substr_count($server->output(), $text) < $times) {
        if (microtime(true) > $deadline) {
            throw new Exception("no $text in " . $server->output() . $server->log());
        }
        usleep(1000);
    }
};
$head = fn (string $target, string $framing) => "POST $target HTTP/1.1\r\nHost: a\r\nX-A: b\r\n$framing\r\n\r\n";

echo "-- pieces\n";
$c = $server->connect();
$c->send($head('/pieces', 'Content-Length: 6'));
$until("begun\n");
foreach (['ab', 'cd'] as $piece) {
    $c->send($piece);
    $until("got $piece\n");
    echo $server->get('/now')->body, "\n";
}
$c->send("ef");
echo $c->answer()->body, "\n";
$c->send($head('/pieces', 'Transfer-Encoding: chunked') . "3\r\nxyz\r\n");
$until("got xyz\n");
$c->send("1\r\n!\r\n0\r\n\r\n" . $head('/pieces', 'Content-Length: 2') . 'ok');
echo $c->answer()->body, "\n", $c->answer()->body, "\n";

echo "-- other ways\n";
foreach (['/small' => 'abcde', '/body' => 'abcde', '/json' => '{"a":1}', '/stream' => "one\ntwo\nthree", '/mixed' => 'abc', '/two' => 'late'] as $target => $body) {
    $c->send($head($target, 'Content-Length: ' . strlen($body)));
    $target === '/two' ? $until('another task waits') : usleep(20_000);
    $c->send($body);
    $answer = $c->answer();
    echo "$target $answer->status ", $answer->status === 500 ? '' : $answer->body, "\n";
    if ($answer->header('connection') === 'close') {
        $c = $server->connect();
    }
}
$c->send($head('/form', "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7"));
usleep(20_000);
$c->send('a=1&b=2');
echo $c->answer()->body, "\n";

echo "-- both ways at once\n";
$c = $server->connect();
$c->send($head('/echo', 'Content-Length: 4'));
$c->send('ab');
echo $c->head()[0], ' ', str_replace("\r\n", ' ', $c->take(7)), "\n";
$c->send('cd');
echo str_replace("\r\n", ' ', $c->take(12)), "\n";

echo "-- not read\n";
$c = $server->connect();
$c->send($head('/refuse', 'Content-Length: 100000') . 'some');
$answer = $c->answer();
echo $answer, ' ', $answer->header('connection'), "\n";

echo "-- what goes wrong\n";
foreach (['yes', 'no'] as $caught) {
    foreach (["9\r\nabcdefghi\r\n", "2\r\nab\r\nxx", "2\r\nab\r\n"] as $chunks) {
        $c = $server->connect();
        $c->send($head("/bad/$caught", 'Transfer-Encoding: chunked') . $chunks);
        $answer = $c->answer();
        echo $answer->status, ' ', $answer->header('connection'), "\n";
    }
}
$c = $server->connect();
$c->send($head('/bad/no', 'Content-Length: 5') . 'ab');
usleep(20_000);
$c->cut();
$until('ClientGone');
echo $server->get('/now')->body, "\n";
var_dump($server->stop());
echo "-- output\n", $server->output(), "-- log\n", $server->logged('/error|warning(?!.*(run as root|opcache))/'), "\n";
?>
--EXPECTF--
-- pieces
now
now
["POST","b",["ab","cd","ef"],null]
["POST","b",["xyz","!"],null]
["POST","b",["ok"],null]
-- other ways
/small 200 ["ab","cd","e",null,"abcde"]
/body 200 ["abcde","abc","de",null]
/json 200 {"a":1}
/stream 200 [["one","two","three"],true]
/mixed 500 
/two 200 late
{"a":"1","b":"2"}
-- both ways at once
200 2 AB 
2 CD 0  
-- not read
403 no close
-- what goes wrong
200 close
200 close
200 close
413 close
400 close
408 close
now
int(0)
-- output
begun
got ab
got cd
got ef
begun
got xyz
got !
begun
got ok
another task waits for this body already; let one of them read it
Fermata\Exception\BadRequestException 413: the body is larger than 5 bytes
Fermata\Exception\BadRequestException 400: %s
Fermata\Exception\BadRequestException 408: the body took longer than body_timeout_ms
Fermata\Exception\BadRequestException 413: the body is larger than 5 bytes
Fermata\Exception\BadRequestException 400: %s
Fermata\Exception\BadRequestException 408: the body took longer than body_timeout_ms
Fermata\Exception\ClientGoneException 0: the client has left before its body had arrived, or was answered
-- log
%SMisuseError: a part of the body was read already%S
