--TEST--
The last errors of extensions belong to the handler: of sockets, posix, OpenSSL and libxml
--EXTENSIONS--
fermata
sockets
posix
openssl
simplexml
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$seen = fn () => json_encode([
    socket_last_error(), posix_get_last_error(), openssl_error_string() !== false, libxml_get_last_error() !== false,
    count(libxml_get_errors()),
]);
$fail = function () {
    @socket_connect(socket_create(AF_UNIX, SOCK_STREAM, 0), '/nowhere');
    posix_kill(PHP_INT_MAX >> 33, 0);
    openssl_pkey_get_private('secret');
    libxml_use_internal_errors(true);
    simplexml_load_string('<secret>');
};
$server->get('/none', fn () => Response::text($seen()));
$server->get('/waits', function () use ($seen) { delay(0.02); return Response::text($seen()); });
$server->get('/collects', function () use ($seen) {
    libxml_use_internal_errors(true);
    delay(0.02);
    simplexml_load_string('<a><b>');
    return Response::text($seen());
});
$server->get('/fails', function () use ($seen, $fail) { $fail(); return Response::text($seen()); });
$server->get('/fails-and-waits', function () use ($seen, $fail) { $fail(); delay(0.05); return Response::text($seen()); });
PHP, ini: ['-dextension=sockets', '-dextension=posix', '-dextension=simplexml']);
$ask = function (string ...$targets) use ($server) {
    $connections = [];
    foreach ($targets as $target) {
        $connections[] = $connection = $server->connect();
        $connection->start('GET', $target);
        usleep(2000);
    }
    foreach ($connections as $connection) {
        echo $connection->answer(), "\n";
    }
};
$ask('/none');
$ask('/fails', '/none');
$ask('/fails-and-waits', '/none', '/waits', '/collects', '/fails-and-waits');
$ask('/none');
var_dump($server->stop());
echo $server->output(), $server->logged("/exception|Error/"), "\n";
?>
--EXPECT--
200 [0,0,false,false,0]
200 [2,3,true,true,1]
200 [0,0,false,false,0]
200 [2,3,true,true,1]
200 [0,0,false,false,0]
200 [0,0,false,false,0]
200 [0,0,false,true,1]
200 [2,3,true,true,1]
200 [0,0,false,false,0]
int(0)
