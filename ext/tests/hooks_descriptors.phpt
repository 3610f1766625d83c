--TEST--
Garbage that keeps descriptors is collected before the system has none left
--EXTENSIONS--
fermata
posix
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') {
    die('skip valgrind keeps the limit on descriptors to itself, and PHP frees garbage at the end with its allocator alone');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
posix_setrlimit(POSIX_RLIMIT_NOFILE, 256, 256);
Fermata\Runtime::hook(Fermata\Hook::Streams);
$server->get('/leak', function () {
    // A cycle, like a transfer of Guzzle. PHP collects cycles after ten thousand objects.
    [$cycle, $peer] = [new stdClass(), new stdClass()];
    [$cycle->stream, $peer->stream] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0) ?: throw new Exception('no descriptor is left');
    [$cycle->peer, $peer->peer] = [$peer, $cycle];
    $task = async(fn () => fgets($cycle->stream));
    delay(0.001);
    fwrite($peer->stream, "read\n");
    return Response::text(trim(await($task)));
});
PHP, ini: is_file(ini_get('extension_dir') . '/posix.so') ? ['-dextension=posix'] : []);
// Let one second pass between two collections.
$connection = $server->connect();
$answers = [];
for ($i = 0; $i < 500; $i++) {
    $answers[(string) $connection->request('GET', '/leak')] = true;
    $i % 50 === 49 && sleep(1);
}
echo implode("\n", array_keys($answers)), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 read
int(0)
