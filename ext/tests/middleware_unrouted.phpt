--TEST--
Unknown paths, wrong methods and OPTIONS pass through global middleware; notFound() answers what nothing knows
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

function ask(TestServer $server): void
{
    $connection = $server->connect();
    foreach ([['GET', '/known'], ['GET', '/nothing'], ['HEAD', '/nothing'], ['DELETE', '/known'], ['OPTIONS', '/known'], ['OPTIONS', '*'], ['BREW', '/known']] as [$method, $target]) {
        $answer = $connection->request($method, $target);
        echo "$method $target: ", trim($answer), " | {$answer->header('allow')} | {$answer->header('seen')}\n";
    }
}
echo "-- middleware\n";
ask(new TestServer(<<<'PHP'
$server->use(fn (Request $request, callable $next) => $next($request)->withHeader('Seen', 'yes'));
$server->get('/known', fn () => Response::text('here'))->post('/known', fn () => Response::text('there'));
PHP));
echo "-- notFound\n";
ask(new TestServer(<<<'PHP'
$server->notFound(fn (Request $request) => Response::text("nothing at {$request->path()}", 404));
$server->get('/known', fn () => Response::text('here'));
PHP));
echo "-- both\n";
ask(new TestServer(<<<'PHP'
$server->use(fn (Request $request, callable $next) => $next($request)->withHeader('Seen', 'yes'));
$server->notFound(fn (Request $request) => Response::text("nothing at {$request->path()}", 410));
$server->get('/known', fn () => Response::text('here'));
PHP));
echo "-- kept\n";
$server = new TestServer(<<<'PHP'
$rest = [];
$server->use(function (Request $request, callable $next) use (&$rest) {
    if ($request->path() === '/later') {
        return $rest[0][1]($rest[0][0]);
    }
    $rest[] = [$request, $next];
    return Response::accepted();
});
$server->get('/known', fn () => Response::text('here'));
PHP);
$connection = $server->connect();
echo $connection->request('DELETE', '/known')->status, "\n";
$answer = $connection->request('GET', '/later');
echo trim($answer), ' | ', $answer->header('allow'), "\n";
?>
--EXPECT--
-- middleware
GET /known: 200 here |  | yes
GET /nothing: 404 Nothing is here. |  | yes
HEAD /nothing: 404 |  | yes
DELETE /known: 405 The method is not allowed here; see Allow. | GET, HEAD, POST, OPTIONS | yes
OPTIONS /known: 204 | GET, HEAD, POST, OPTIONS | yes
OPTIONS *: 204 | GET, HEAD, POST, OPTIONS | yes
BREW /known: 501 This server does not know the method. |  | 
-- notFound
GET /known: 200 here |  | 
GET /nothing: 404 nothing at /nothing |  | 
HEAD /nothing: 404 |  | 
DELETE /known: 405 The method is not allowed here; see Allow. | GET, HEAD, OPTIONS | 
OPTIONS /known: 204 | GET, HEAD, OPTIONS | 
OPTIONS *: 204 | GET, HEAD, OPTIONS | 
BREW /known: 501 This server does not know the method. |  | 
-- both
GET /known: 200 here |  | yes
GET /nothing: 410 nothing at /nothing |  | yes
HEAD /nothing: 410 |  | yes
DELETE /known: 405 The method is not allowed here; see Allow. | GET, HEAD, OPTIONS | yes
OPTIONS /known: 204 | GET, HEAD, OPTIONS | yes
OPTIONS *: 204 | GET, HEAD, OPTIONS | yes
BREW /known: 501 This server does not know the method. |  | 
-- kept
202
405 The method is not allowed here; see Allow. | GET, HEAD, OPTIONS
