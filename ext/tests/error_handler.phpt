--TEST--
error(): answers for what was thrown; what it throws itself is the built-in answer; nothing of it reaches fatal errors
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->use(fn (Request $request, callable $next) => $next($request)->withHeader('Seen', 'yes'));
$server->error(function (Throwable $error, Request $request): Response|Hold {
    return match ($request->query('then')) {
        null => Response::json(['error' => $error->getMessage(), 'path' => $request->path()], $error instanceof Fermata\Exception\BadRequestException ? 422 : 503),
        'throw' => throw new LogicException('in the error handler'),
        'exit' => exit(1),
        'nonsense' => 42,
        'fatal' => eval('final class Twice {} final class Twice {}'),
        'hold' => Hold::sse('news')->with(new Event('held')),
    };
});
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/throw', fn () => throw new RuntimeException('first'));
$server->post('/json', fn (Request $request) => Response::json($request->json()));
$server->get('/type', fn () => 42);
$server->get('/exit', fn () => exit(1));
PHP, environment: ['VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
$pid = $server->get('/')->body;
echo $server->get('/throw'), "\n";
echo $server->request('POST', '/json', [], '{'), "\n";
echo $server->get('/type'), "\n";
foreach (['/throw?then=throw', '/throw?then=exit', '/throw?then=nonsense', '/exit'] as $target) {
    echo "$target: ", trim($server->get($target)), ' ', var_export($server->get('/')->body === $pid, true), "\n";
}
$connection = $server->connect();
$connection->start('GET', '/throw?then=hold');
$connection->head();
echo $connection->event(), "\n";
echo $server->get('/throw?then=fatal')->status, "\n";
echo $server->get('/')->status, "\n";
foreach (['first in', 'LogicException: in the error handler', 'must return', 'Twice'] as $part) {
    echo $part, ': ', substr_count($server->log(), $part), "\n";
}
?>
--EXPECT--
503 {"error":"first","path":"/throw"}
422 {"error":"the request body is not valid JSON","path":"/json"}
503 {"error":"the handler must return Fermata\\Response or Fermata\\Hold, int returned","path":"/type"}
/throw?then=throw: 500 The server has failed to answer; its log tells why. true
/throw?then=exit: 500 The server has failed to answer; its log tells why. true
/throw?then=nonsense: 500 The server has failed to answer; its log tells why. true
/exit: 500 The server has failed to answer; its log tells why. true
message: held
500
200
first in: 6
LogicException: in the error handler: 1
must return: 1
Twice: 1
