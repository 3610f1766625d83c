--TEST--
join(): events reach the client in the format asked for, without PHP; leave() ends it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', message: function (WebSocket $socket, Message $message) {
    [$do, $channel, $text] = explode(' ', "$message  ");
    $same = match ($do) {
        'data' => $socket->join($channel),
        'json' => $socket->join($channel, format: Format::Json),
        'leave' => $socket->leave($channel),
        'say' => Channel::get($channel)->publish(new Event($text, 'said')) !== '' ? $socket : null,
        'others' => Channel::get($channel)->publish(new Event($text), except: $socket) !== '' ? $socket : null,
    };
    $socket->send(json_encode($same === $socket));
});
$server->get('/events', fn () => Hold::sse('room'));
PHP);
function envelope(string $told): string { return preg_replace('/"id":"[^"]+"/', '"id":"…"', $told); }
$one = $server->socket('/');
$two = $server->socket('/');
$sse = $server->connect();
$sse->start('GET', '/events');
$sse->head();
echo $one->ask('data room'), ' ', envelope($two->ask('json room')), ' ', $two->receive(), "\n";
$one->send('say room hello');
$told = [$one->receive(), $one->receive()];
sort($told);
echo implode(', ', $told), "\n", envelope($two->receive()), "\n", $sse->event(), "\n";
echo $one->ask('others room quietly'), ' ', envelope($two->receive()), ' ', $sse->event(), "\n";
echo $two->ask('others room aside'), ' ', $one->receive(), "\n";
echo $one->ask('leave room'), ' ', $one->ask('leave never-joined'), "\n";
echo $two->ask('others room nobody'), ' ', $one->ask('others room again'), ' ', envelope($two->receive()), "\n";
echo $two->leave(), ' ', $one->leave(), "\n";
?>
--EXPECT--
text: true text: {"channel":"room","id":"…","event":"position","data":""} text: true
text: hello, text: true
text: {"channel":"room","id":"…","event":"said","data":"hello"}
said: hello
text: true text: {"channel":"room","id":"…","event":null,"data":"quietly"} message: quietly
text: true text: aside
text: true text: true
text: true text: true text: {"channel":"room","id":"…","event":null,"data":"again"}
close: 1000 close: 1000
