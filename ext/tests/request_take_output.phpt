--TEST--
Request::takeOutput(): what a handler has printed is its caller's to answer with, and Response::relayed() puts it in front of the body
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Limits, Request, Response, Server};
use Fermata\Testing\Engine;

$server = new Server(limits: new Limits(handlers: 1));
$of = [];
$server->get('/{what}', function (Request $request) use (&$of) {
    $what = $request->route('what');
    if ($what !== 'without') {
        $request->fillGlobals();
    }
    if ($what === 'headers') {
        header_register_callback(fn () => header('X-Early: yes'));
        print 'printed ';
        return Response::relayed(200, json_encode([headers_sent(), headers_list()]), []);
    }
    if ($what === 'open') {
        print 'first ';
        ob_start(fn (string $text) => strtoupper($text));
        print 'second ';
        ob_start();
        print 'third ';
        return Response::relayed(200, 'body ' . ob_get_level(), []);
    }
    if ($what === 'throws') {
        ob_start(fn () => throw new LogicException('of a buffer'));
        print 'lost';
        return Response::relayed(200, 'body', []);
    }
    if ($what === 'taken') {
        print 'one ';
        $one = $request->takeOutput();
        print 'two ';
        return new Response(200, json_encode([$one, $request->takeOutput(), $request->takeOutput(), $of ? $of[0]->takeOutput() : null]));
    }
    if ($what === 'nothing') {
        $of = [$request];
        return Response::relayed(200, '', []);
    }
    return new Response(200, json_encode($request->takeOutput()));
});
// Print later: output of the test would count as output of the handlers.
$answers = '';
$engine = new Engine($server);
foreach (['nothing', 'headers', 'open', 'throws', 'taken', 'without', 'nothing'] as $what) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "GET /$what HTTP/1.1\r\nHost: test\r\n\r\n");
    $engine->run();
    stream_set_blocking($client, false);
    $answers .= "$what: " . preg_replace('/^(Date|Content-Length):.*\r\n/m', '', stream_get_contents($client)) . "\n";
}
echo $answers;
?>
--EXPECT--
nothing: HTTP/1.1 200 OK


headers: HTTP/1.1 200 OK
Content-Type: text/html; charset=UTF-8
X-Early: yes

printed [false,[]]
open: HTTP/1.1 200 OK
Content-Type: text/html; charset=UTF-8

first SECOND THIRD body 2
throws: HTTP/1.1 500 Internal Server Error
Content-Type: text/plain; charset=utf-8

The server has failed to answer; its log tells why.

taken: HTTP/1.1 200 OK
Content-Type: text/plain; charset=utf-8

["one ","two ","",""]
without: HTTP/1.1 200 OK
Content-Type: text/plain; charset=utf-8

""
nothing: HTTP/1.1 200 OK


