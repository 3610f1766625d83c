--TEST--
Static files pass through middleware and notFound(), by group; without middleware a missing file is notFound()'s
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$directory = sys_get_temp_dir() . '/fermata-static-' . getmypid();
@mkdir("$directory/sub", recursive: true);
file_put_contents("$directory/a.txt", 'content');
file_put_contents("$directory/sub/index.html", 'index');
file_put_contents("$directory/.hidden", 'secret');

function ask(TestServer $server, array $targets, array $headers = []): void
{
    $connection = $server->connect();
    foreach ($targets as $target) {
        [$method, $path] = explode(' ', $target);
        $answer = $connection->request($method, $path, $headers);
        echo "$target: ", trim($answer), " | {$answer->header('seen')} | {$answer->header('location')} | {$answer->header('cache-control')}\n";
    }
}
$routes = <<<PHP
\$server->static('/files', '$directory', cacheSeconds: 60);
\$server->group('/private', function (\$routes) {
    \$routes->static('/f', '$directory');
    \$routes->get('/page', fn () => Response::text('page'));
}, middleware: [function (Request \$request, callable \$next) {
    if (\$request->query('key') === 'wait') {
        delay(0.001);
    } elseif (\$request->query('key') !== 'x') {
        return Response::text('no', 403);
    }
    return \$next(\$request)->withHeader('Seen', 'private');
}]);
PHP;
echo "-- a group's\n";
$server = new TestServer($routes);
ask($server, ['GET /files/a.txt', 'GET /files/none', 'GET /private/f/a.txt', 'GET /private/f/a.txt?key=x', 'GET /private/f/a.txt?key=wait',
    'HEAD /private/f/a.txt?key=x', 'GET /private/f/sub?key=x', 'GET /private/f/sub/?key=wait', 'GET /private/f/none?key=x', 'GET /private/f/none', 'GET /private/f/.hidden?key=x',
    'GET /private/f/a%2Fx?key=x', 'POST /private/f/a.txt?key=x', 'GET /private/page?key=x']);
ask($server, ['GET /private/f/a.txt?key=x', 'GET /private/f/a.txt?key=wait'], ['Range' => 'bytes=0-2']);
$tag = $server->connect()->request('GET', '/private/f/a.txt?key=x')->header('etag');
ask($server, ['GET /private/f/a.txt?key=x', 'GET /private/f/a.txt?key=wait', 'GET /private/f/a.txt'], ['If-None-Match' => $tag]);
echo "-- the server's, notFound() and error()\n";
$server = new TestServer($routes . <<<'PHP'
$server->use(function (Request $request, callable $next) {
    if ($request->query('throw')) {
        throw new RuntimeException('thrown');
    }
    $response = $next($request);
    return $response->withHeader('Seen', trim($response->header('Seen') . " {$response->status()}"))->withHeader('Cache-Control', 'mine');
});
$server->notFound(fn (Request $request) => Response::text("nothing at {$request->path()}", 404));
$server->error(fn (Throwable $e) => Response::text($e->getMessage(), 500));
PHP);
ask($server, ['GET /files/a.txt', 'GET /files/none', 'GET /files/sub', 'GET /files/a.txt?throw=1', 'GET /private/f/a.txt', 'GET /private/f/none?key=x', 'GET /private/f/a.txt?key=x']);
echo "-- notFound() alone\n";
$server = new TestServer($routes . '$server->notFound(fn (Request $request) => Response::text("nothing at {$request->path()}", 410));');
ask($server, ['GET /files/a.txt', 'GET /files/none', 'GET /files/.hidden', 'GET /files/sub', 'GET /private/f/none?key=x', 'GET /none']);
array_map('unlink', ["$directory/a.txt", "$directory/sub/index.html", "$directory/.hidden"]);
rmdir("$directory/sub");
rmdir($directory);
?>
--EXPECT--
-- a group's
GET /files/a.txt: 200 content |  |  | public, max-age=60
GET /files/none: 404 Nothing is here. |  |  | 
GET /private/f/a.txt: 403 no |  |  | 
GET /private/f/a.txt?key=x: 200 content | private |  | 
GET /private/f/a.txt?key=wait: 200 content | private |  | 
HEAD /private/f/a.txt?key=x: 200 | private |  | 
GET /private/f/sub?key=x: 308 | private | /private/f/sub/?key=x | 
GET /private/f/sub/?key=wait: 200 index | private |  | 
GET /private/f/none?key=x: 404 Nothing is here. | private |  | 
GET /private/f/none: 403 no |  |  | 
GET /private/f/.hidden?key=x: 404 Nothing is here. | private |  | 
GET /private/f/a%2Fx?key=x: 404 Nothing is here. |  |  | 
POST /private/f/a.txt?key=x: 405 The method is not allowed here; see Allow. |  |  | 
GET /private/page?key=x: 200 page | private |  | 
GET /private/f/a.txt?key=x: 206 con | private |  | 
GET /private/f/a.txt?key=wait: 206 con | private |  | 
GET /private/f/a.txt?key=x: 304 | private |  | 
GET /private/f/a.txt?key=wait: 304 | private |  | 
GET /private/f/a.txt: 403 no |  |  | 
-- the server's, notFound() and error()
GET /files/a.txt: 200 content | 200 |  | mine
GET /files/none: 404 nothing at /files/none | 404 |  | mine
GET /files/sub: 308 | 308 | /files/sub/ | mine
GET /files/a.txt?throw=1: 500 thrown |  |  | 
GET /private/f/a.txt: 403 no | 403 |  | mine
GET /private/f/none?key=x: 404 nothing at /private/f/none | private 404 |  | mine
GET /private/f/a.txt?key=x: 200 content | private 200 |  | mine
-- notFound() alone
GET /files/a.txt: 200 content |  |  | public, max-age=60
GET /files/none: 410 nothing at /files/none |  |  | 
GET /files/.hidden: 410 nothing at /files/.hidden |  |  | 
GET /files/sub: 308 |  | /files/sub/ | 
GET /private/f/none?key=x: 410 nothing at /private/f/none | private |  | 
GET /none: 410 nothing at /none |  |  | 
