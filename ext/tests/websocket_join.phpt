--TEST--
join(): formats, resume, presence, except, leave
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    [$do, $a, $b] = explode(' ', "$message  ");
    match ($do) {
        'data' => $socket->join($a),
        'json' => $socket->join($a, format: Format::Json, since: $b),
        'as' => $socket->join($a, user: $b, info: ['name' => $b], format: Format::Json),
        'leave' => $socket->leave($a),
        'say' => Channel::get($a)->publish(new Event($b, 'said')),
        'others' => Channel::get($a)->publish(new Event($b), except: $socket),
        'members' => null,
        'empty' => $socket->join($a, user: ''),
        'name' => $socket->join(''),
        'info' => $socket->join($a, info: [NAN]),
    };
    $socket->send("done $do");
});
$server->get('/members/{channel}', fn (Request $r) => Response::json(Channel::get($r->route('channel'))->members()));
$server->get('/events', fn () => Hold::sse('room'));
PHP);
$one = $server->socket('/');
$two = $server->socket('/');
$sse = $server->connect();
$sse->start('GET', '/events');
$sse->head();
echo $one->ask('data room'), "\n", $two->ask('json room'), "\n", $one->ask('say room hello'), "\n", $one->receive(), "\n";
$envelope = json_decode(substr($two->receive(), 6), true);
echo json_encode(['id' => $envelope['id'] !== ''] + $envelope), ' ', $sse->event(), "\n";
echo $one->ask('others room quietly'), "\n", json_decode(substr($two->receive(), 6))->data, ' ', $sse->event(), "\n";
echo $one->ask('leave room'), "\n", $two->ask('say room only-two'), "\n", json_decode(substr($two->receive(), 6))->data, "\n";
$back = $server->socket('/');
$back->send("json room $envelope[id]");
echo implode(', ', array_map(fn () => strstr($back->receive(), 'd') , range(1, 3))) !== '' ? '' : '', "\n";
$ann = $server->socket('/');
echo $ann->ask('as lobby ann'), "\n";
$bob = $server->socket('/');
echo $bob->ask('as lobby bob'), "\n", preg_replace('/"id":"[^"]*"/', '"id":"…"', $ann->receive()), "\n", $server->get('/members/lobby')->body, "\n";
foreach (['empty', 'name', 'info'] as $how) {
    echo "$how: ", $server->socket('/')->ask("$how x"), "\n";
}
foreach (explode("\n", $server->logged('/WebSocket handler/')) as $line) {
    echo preg_replace('/^.*?(WebSocket handler)/', '$1', $line), "\n";
}
?>
--EXPECT--
