--TEST--
Server: bad patterns, taken routes and handlers that cannot be called are refused where they are registered
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Request, Response, Server};

$server = new Server();
$handler = fn(Request $request) => Response::accepted();
var_dump($server->get('/a', $handler)->post('/a', $handler)->put('/a', $handler)->patch('/a', $handler)->delete('/a', $handler)
    ->options('/a', $handler)->any('/b/{id}', $handler) === $server);
foreach ([['/a', $handler], ['a', $handler]] as $arguments) {
    try {
        $server->get(...$arguments);
        echo "nothing thrown\n";
    } catch (Fermata\Exception\MisuseError $error) {
        echo "refused\n";
    }
}
thrown(fn() => $server->get('/c', 'no_such_function'));
thrown(fn() => $server->get('/c', [$server, 'nothing']));
thrown(fn() => $server->__construct());
?>
--EXPECT--
bool(true)
refused
refused
TypeError: Fermata\Server::get(): Argument #2 ($handler) must be a valid callback, function "no_such_function" not found or invalid function name
TypeError: Fermata\Server::get(): Argument #2 ($handler) must be a valid callback, class Fermata\Server does not have a method "nothing"
Fermata\Exception\MisuseError: the object is already constructed; create a new one
