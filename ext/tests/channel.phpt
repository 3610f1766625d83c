--TEST--
Channel: publish, history, members
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/events/{user}', fn (Request $r) => Hold::sse('room')->as($r->route('user'), $r->route('user') === 'ann' ? ['name' => 'Ann', 'n' => [1]] : null));
$server->post('/{name...}', fn (Request $r) => Response::text(Channel::get('room')->publish(new Event($r->body(), $r->route('name')))));
$server->get('/history', fn (Request $r) => Response::json(array_map(
    fn (Event $event) => [$event->data, $event->name, $event->id === null ? 'no id' : 'id', abs($event->timeMs - microtime(true) * 1000) < 60000],
    Channel::get('room')->history($r->query('since'), $r->query('count') === null ? null : (int) $r->query('count')),
)));
$server->get('/members', fn () => Response::json(Channel::get('room')->members()));
$server->get('/name', fn () => Response::text(Channel::get("r\u{fc}m")->name));
$server->get('/wrong', fn () => Response::text(Channel::get("a\nb")->name));
$server->get('/large', fn () => Response::text(Channel::get('room')->publish(new Event(str_repeat('x', 1 << 20)))));
PHP);
echo $server->get('/name'), "\n";
foreach (['/wrong', '/large', '/history?count=0'] as $target) {
    echo $server->get($target)->status, "\n";
}
$clients = [];
foreach (['ann', 'bob', 'ann'] as $user) {
    $client = $clients[] = $server->connect();
    $client->start('GET', "/events/$user");
    $client->head();
}
echo $clients[0]->event(), "\n";
$members = json_decode($server->get('/members')->body, true);
usort($members, fn($a, $b) => $a['user'] <=> $b['user']);
echo json_encode($members), "\n";
$first = $server->request('POST', '/chat', [], 'one')->body;
$server->request('POST', '/chat', [], 'two');
foreach (['', '?count=1', "?since=$first", '?since=nonsense'] as $query) {
    echo $server->get("/history$query"), "\n";
}
foreach (explode("\n", $server->logged('/MisuseError|Error:/')) as $line) {
    echo strstr($line, 'Fermata') ?: strstr($line, 'Error:'), "\n";
}
?>
--EXPECT--
200 rüm
500
500
500
join: {"user":"ann","info":{"name":"Ann","n":[1]}}
[{"user":"ann","info":{"name":"Ann","n":[1]},"connections":2},{"user":"bob","info":null,"connections":1}]
200 [["one","chat","id",true],["two","chat","id",true]]
200 [["two","chat","id",true]]
200 [["two","chat","id",true]]
200 [["one","chat","id",true],["two","chat","id",true]]
Fermata\Exception\MisuseError: channel name "a\nb": it contains a control character; use 1 to 255 bytes of printable text in server.php:9
Fermata\Exception\MisuseError: the event has 1048576 bytes of name and data, but at most 65536 are allowed (event_bytes_max) in server.php:10
Fermata\Exception\MisuseError: history() takes a positive count, not 0; null means all in server.php:5
