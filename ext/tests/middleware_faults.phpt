--TEST--
Middleware that throws, exits, returns nonsense or fails fatally costs one request; a wrong return names its place
--EXTENSIONS--
fermata
--SKIPIF--
<?php if (getenv('USE_ZEND_ALLOC') === '0') die('skip the memory limit is the Zend allocator\'s'); ?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->use(function (Request $request, callable $next) {
    try {
        return $next($request);
    } catch (DomainException $error) {
        return Response::text("caught {$error->getMessage()}", 418);
    }
});
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/caught', fn () => throw new DomainException('inside'));
$server->get('/thrown', fn () => throw new RuntimeException('inside'));
$server->get('/wrong-handler',
    fn () => 42);
$server->get('/wrong-middleware', fn () => Response::text('fine'), [
    fn () => 'text',
]);
$server->get('/no-request', fn () => Response::text('fine'), [fn (Request $request, callable $next) => $next('x')]);
$server->get('/exit', fn () => Response::text('fine'), [fn () => exit(1)]);
$server->get('/fatal', fn () => Response::text('fine'), [function () {
    eval('final class Twice {} final class Twice {}');
    return Response::text('not reached');
}]);
$server->get('/memory', fn () => Response::text('fine'), [fn () => Response::text(str_repeat('x', 100_000_000))]);
PHP, ini: ['-dmemory_limit=32M'], environment: ['VALGRIND_OPTS' => '--leak-check=no']); // a fatal error does not free PHP's heap
$pid = $server->get('/')->body;
foreach (['caught', 'thrown', 'wrong-handler', 'wrong-middleware', 'no-request', 'exit'] as $name) {
    echo "$name: ", $server->get("/$name")->status, ' ', var_export($server->get('/')->body === $pid, true), "\n";
}
foreach (['fatal', 'memory'] as $name) {
    echo "$name: ", $server->get("/$name")->status, "\n";
    echo strlen($server->get('/')->body) > 0 ? "served on\n" : "not served\n";
}
echo preg_replace('/^.*?error +\[\S+( \S+)?\] /m', '', $server->logged('/ error /')), "\n";
?>
--EXPECTF--
caught: 418 true
thrown: 500 true
wrong-handler: 500 true
wrong-middleware: 500 true
no-request: 500 true
exit: 500 true
fatal: 500
served on
memory: 500
served on
%ARuntimeException: inside in server.php:10%A
%ATypeError: the handler must return Fermata\Response or Fermata\Hold, int returned in server.php:12%A
%ATypeError: the middleware must return Fermata\Response or Fermata\Hold, string returned in server.php:14%A
%AFermata\Next::__invoke(): Argument #1 ($request) must be of type Fermata\Request, string given in server.php:16%A
%Aexit() called in handler%A
%ATwice%A
%AAllowed memory size%A
