--TEST--
Groups, middleware and the handlers for errors and unknown paths are checked where they are given
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Request, Response, Routes, Server};

$server = new Server();
$fine = fn() => Response::accepted();
foreach (['', '/', 'api', '/api/'] as $prefix) {
    thrown(fn() => $server->group($prefix, fn(Routes $routes) => null));
}
thrown(fn() => $server->group('/a', fn(Routes $routes) => $routes->get('b', $fine)));
thrown(fn() => $server->group('/c', fn(Routes $routes) => throw new Exception('inside')));
thrown(fn() => $server->use());
thrown(fn() => $server->use($fine, 'no_such_function'));
thrown(fn() => $server->get('/d', $fine, ['no_such_function']));
thrown(fn() => $server->get('/d', $fine, middleware: [1 => 7]));
thrown(fn() => $server->get('/e', $fine, bodyBytes: -1));
thrown(fn() => $server->get('/f', $fine, bodyBytes: PHP_INT_MAX));
thrown(fn() => $server->notFound($fine)->notFound($fine));
thrown(fn() => $server->error($fine)->error($fine));
thrown(fn() => new Routes());
thrown(fn() => new Fermata\Next());
// A group that refers to itself is collected.
$server->group('/g', function (Routes $routes) { $routes->get('/', fn() => $routes); });
$weak = WeakReference::create($server);
unset($server);
gc_collect_cycles();
var_dump($weak->get());
?>
--EXPECT--
Fermata\Exception\MisuseError: the prefix "" of a group must start with / and not end with it, as in /api
Fermata\Exception\MisuseError: the prefix "/" of a group must start with / and not end with it, as in /api
Fermata\Exception\MisuseError: the prefix "api" of a group must start with / and not end with it, as in /api
Fermata\Exception\MisuseError: the prefix "/api/" of a group must start with / and not end with it, as in /api
Fermata\Exception\MisuseError: the path "b" in the group /a does not start with /; give /b, or nothing for the group's prefix itself
Exception: inside
ArgumentCountError: Fermata\Server::use() expects at least 1 argument, 0 given
TypeError: Fermata\Server::use(): Argument #2 must be a valid callback, string given
TypeError: Fermata\Server::get(): Argument #3 ($middleware) must be a list of callables; the one at position 0 is string
TypeError: Fermata\Server::get(): Argument #3 ($middleware) must be a list of callables; the one at position 0 is int
Fermata\Exception\MisuseError: bodyBytes of /e is negative; give the bytes that a body may have
Fermata\Exception\MisuseError: a body of 9223372036854775807 bytes is over 1099511627776; give a smaller limit
Fermata\Exception\MisuseError: there already is a handler for paths that nothing knows; remove one of the two
Fermata\Exception\MisuseError: there already is a handler for errors; remove one of the two
Error: Call to private Fermata\Routes::__construct() from global scope
Error: Call to private Fermata\Next::__construct() from global scope
NULL
