--TEST--
Server::run() inside a Fiber is refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new Fermata\Server(listen: 'http://127.0.0.1:0');
(new Fiber(fn() => thrown(fn() => $server->run())))->start();
?>
--EXPECT--
Fermata\Exception\MisuseError: run() must be called outside of a Fiber; handlers may use Fibers as they like
