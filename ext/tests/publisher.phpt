--TEST--
Publisher: publishes into a running server from another process
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Event, Publisher};

$socket = sys_get_temp_dir() . '/fermata-phpt-' . getmypid() . '.sock';
$server = new TestServer(<<<'PHP'
$server->get('/events', fn () => Hold::sse('room')->with(new Event('ready')));
PHP, "workers: 2, control: 'unix:$socket'");
$held = $server->connect();
$held->start('GET', '/events');
$held->head();
echo $held->event(), "\n";

$publisher = new Publisher("unix:$socket");
$ids = [$publisher->publish('room', new Event('from outside', 'chat')), $publisher->publish('room', Event::json(['n' => 2]))];
var_dump($ids[0] !== '' && $ids[0] !== $ids[1]);
echo $held->event(), "\n", $held->event(), "\n";
thrown(fn() => $publisher->publish('room', new Event(str_repeat("x", 100000))));
thrown(fn() => $publisher->publish("a\nb", new Event('x')));
unset($server);
thrown(fn() => $publisher->publish('room', new Event('too late')));
?>
--EXPECTF--
message: ready
bool(true)
chat: from outside
message: {"n":2}
Fermata\Exception\MisuseError: %s
Fermata\Exception\MisuseError: channel name %s
Fermata\Exception\ConnectionException: %s
