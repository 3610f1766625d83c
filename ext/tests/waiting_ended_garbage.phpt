--TEST--
What a handler that was ended leaves in a cycle is collected soon, and its descriptors are closed
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/ended', function () {
    $cycle = new stdClass();
    $cycle->itself = $cycle;
    $cycle->pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    try { timeout(0.001, fn () => delay(60)); } catch (Fermata\Exception\TimeoutException) { return Response::text('ended'); }
});
$server->get('/open', fn () => Response::text((string) count(scandir('/proc/self/fd'))));
PHP);
$open = (int) $server->get('/open')->body;
for ($i = 0; $i < 100; $i++) {
    $server->get('/ended');
}
$deadline = microtime(true) + WAIT_S;
while ((int) $server->get('/open')->body > $open + 5 && microtime(true) < $deadline) {
    usleep(10_000);
}
echo (int) $server->get('/open')->body <= $open + 5 ? "closed\n" : "still open\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
closed
int(0)
