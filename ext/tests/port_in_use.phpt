--TEST--
A port in use is a ConfigurationException that names it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$taken = stream_socket_server('tcp://127.0.0.1:0');
$port = (int) substr(strrchr(stream_socket_get_name($taken, false), ':'), 1);
$server = new Fermata\Server(listen: "http://127.0.0.1:$port", workers: 1);
try {
    $server->run();
} catch (Fermata\Exception\ConfigurationException $error) {
    var_dump(str_contains($error->getMessage(), (string) $port));
}
thrown(fn() => $server->run());
?>
--EXPECT--
bool(true)
Fermata\Exception\MisuseError: run() was called; routes are registered before it, and it is called once
