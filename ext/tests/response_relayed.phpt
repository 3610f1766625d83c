--TEST--
Response::relayed(): what another library's response says is sent, without what frames the message, with what header() has set
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Limits, Request, Response, Server};
use Fermata\Testing\Engine;

final class Text { function __toString(): string { return 'an object'; } }
function thrown(callable $call): string { try { $call(); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); } return 'nothing'; }

$cases = [
    'plain' => fn () => Response::relayed(201, 'body', ['Content-Type' => 'a/b', 'X-One' => ['1', '2'], 'x-one' => '3']),
    'no type' => fn () => Response::relayed(200, 'body', []),
    'no body' => fn () => Response::relayed(204, '', ['X-Empty' => '']),
    'types' => fn () => Response::relayed(200, '', ['X-Int' => 7, 'X-Null' => null, 'X-List' => [null, 1.5, new Text()], 7 => ['number'], 'X-None' => []]),
    'framing' => fn () => Response::relayed(200, 'b', ['content-length' => '99', 'Transfer-Encoding' => ['chunked'], 'Connection' => 'close', 'TE' => 'a']),
    'last type counts' => fn () => Response::relayed(200, 'b', ['content-type' => ['a/a', 'b/b'], 'Content-TYPE' => 'c/c']),
    'cookies' => fn () => Response::relayed(200, 'b', ['set-cookie' => ['a=b', 'c=d']]),
];
foreach ($cases as $name => $make) {
    $response = $make();
    echo $name, ': ', $response->status(), ' ', $response->body(), ' ', json_encode($response->headers()), "\n";
}
echo thrown(fn () => Response::relayed(199, '', [])), "\n";
echo thrown(fn () => Response::relayed(600, '', [])), "\n";
echo thrown(fn () => Response::relayed(200, '', ['X-A' => 'b', 'X-One' => "a\r\nb: c"])), "\n";
echo thrown(fn () => Response::relayed(200, '', ['X One' => 'a'])), "\n";
echo thrown(fn () => Response::relayed(200, '', ['X-One' => new class { function __toString(): string { throw new Exception('of its own'); } }])), "\n";

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/sent', function (Request $request) {
    $request->fillGlobals();
    header('X-One: of header()');
    header('X-Two:  of header()');
    header('Content-Type: text/x-sent');
    header('Content-Length: 99');
    setcookie('sent', '1');
    return Response::relayed(200, 'body', ['x-one' => 'of the response', 'Content-Type' => 'text/x-response', 'set-cookie' => ['own=2']]);
});
$server->get('/after', fn (Request $request) => Response::relayed(200, 'body', ['X-After' => 'a']));
$server->get('/type', function (Request $request) {
    $request->fillGlobals();
    header('Content-Type: text/x-sent');
    return Response::relayed(200, 'body', []);
});
// Print later: output of the test would count as output of the handlers.
$answers = '';
$engine = new Engine($server);
foreach (['/sent', '/after', '/type', '/after'] as $path) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "GET $path HTTP/1.1\r\nHost: test\r\n\r\n");
    $engine->run();
    stream_set_blocking($client, false);
    $answers .= preg_replace('/^Date:.*\r\n/m', '', stream_get_contents($client)) . "\n";
}
echo $answers;
?>
--EXPECT--
plain: 201 body {"Content-Type":["a\/b"],"X-One":["1","2"],"x-one":["3"]}
no type: 200 body {"Content-Type":["text\/html; charset=UTF-8"]}
no body: 204  {"X-Empty":[""]}
types: 200  {"X-Int":["7"],"X-List":["1.5","an object"],"7":["number"]}
framing: 200 b {"Content-Type":["text\/html; charset=UTF-8"]}
last type counts: 200 b {"Content-Type":["c\/c"]}
cookies: 200 b {"Content-Type":["text\/html; charset=UTF-8"],"Set-Cookie":["a=b","c=d"]}
Fermata\Exception\MisuseError: the status must be 200 to 599, not 199
Fermata\Exception\MisuseError: the status must be 200 to 599, not 600
Fermata\Exception\MisuseError: the value of header "X-One" has a line break or another control character
Fermata\Exception\MisuseError: a header name must be a token: letters, digits and !#$%&'*+-.^_`|~
Exception: of its own
HTTP/1.1 200 OK
Content-Type: text/x-response
Content-Length: 4
x-one: of the response
Set-Cookie: own=2
X-Two: of header()
Set-Cookie: sent=1

body
HTTP/1.1 200 OK
Content-Type: text/html; charset=UTF-8
Content-Length: 4
X-After: a

body
HTTP/1.1 200 OK
Content-Type: text/x-sent;charset=UTF-8
Content-Length: 4

body
HTTP/1.1 200 OK
Content-Type: text/html; charset=UTF-8
Content-Length: 4
X-After: a

body
