--TEST--
Limits(handlers: 1): one handler at a time, in the order of arrival; holds, files and tasks go on; a client that leaves gives its place up
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
file_put_contents(__DIR__ . '/file.txt', 'a file');
$log = [];
$server->static('/files', __DIR__);
$server->get('/events', fn () => Hold::sse('news'));
$server->get('/slow/{name}', function (Request $r) use (&$log) {
    $name = $r->route('name');
    $log[] = "$name begins";
    await(async(function () use ($name) { delay(0.4); Channel::get('news')->publish("$name waits"); }));
    $log[] = "$name ends";
    return Response::text($name);
});
$server->get('/fails', function () { delay(0.05); throw new Exception('failed'); });
$server->error(fn (Throwable $e) => Response::text($e->getMessage(), 500));
$server->websocket('/ws', message: function (WebSocket $socket, Message $m) use (&$log) { $log[] = "message $m"; Channel::get('news')->publish($m); $socket->send($m); });
$server->get('/log', function () use (&$log) { return Response::json($log); });
PHP, 'workers: 1, limits: new Limits(handlers: 1)');
$events = $server->connect();
$events->start('GET', '/events');
$events->head();
$clients = [];
foreach (['a', 'b', 'gone', 'c'] as $name) {
    $clients[$name] = $server->connect();
    $clients[$name]->start('GET', "/slow/$name");
    usleep(50_000);
}
$failing = $server->connect();
$failing->start('GET', '/fails');
usleep(50_000);
$clients['gone']->cut();
echo $server->get('/files/file.txt'), "\n";
echo $clients['a']->answer(), ' ', $clients['b']->answer(), ' ', $clients['c']->answer(), ' ', $failing->answer(), "\n";
$socket = $server->socket('/ws');
echo $socket->ask('hello'), "\n";
echo $server->get('/log'), "\n";
echo $events->event(), ', ', $events->event(), ', ', $events->event(), ', ', $events->event(), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 a file
200 a 200 b 200 c 500 failed
text: hello
200 ["a begins","a ends","b begins","b ends","c begins","c ends","message hello"]
message: a waits, message: b waits, message: c waits, message: hello
int(0)
