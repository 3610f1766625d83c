--TEST--
A server whose handlers capture it is found by the cycle collector
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Response, Server};

// Suppress the warning about a server that is never run.
register_shutdown_function(fn () => fclose(STDERR));
$server = new Server();
$weak = WeakReference::create($server);
$server->get('/', function () use ($server) { return Response::accepted(); });
unset($server);
var_dump($weak->get() !== null);
gc_collect_cycles();
var_dump($weak->get());
?>
--EXPECT--
bool(true)
NULL
