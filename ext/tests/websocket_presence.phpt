--TEST--
join(user:) counts as present beside held clients, and tells join and leave
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/{user}', open: fn (WebSocket $socket) => $socket->join('room', user: $socket->data(), info: ['name' => strtoupper($socket->data())], format: Format::Json),
    upgrade: fn (Upgrade $upgrade) => $upgrade->setData($upgrade->request()->route('user')),
    message: fn (WebSocket $socket, Message $message) => $socket->send(json_encode(Channel::get('room')->members())));
$server->get('/events', fn () => Hold::sse('room')->as('eva'));
PHP, environment: ['FERMATA_LEAVE_DELAY_MS' => '1']);
function hears(Client $client): string
{
    while (($told = json_decode(substr($client->receive(), strlen('text: ')), true))['event'] === 'position');
    return "$told[channel] $told[event] $told[data]";
}
$ann = $server->socket('/ann');
echo hears($ann), "\n";
$bob = $server->socket('/bob');
echo hears($ann), "\n", hears($bob), "\n";
$again = $server->socket('/bob');
$eva = $server->connect();
$eva->start('GET', '/events');
$eva->head();
echo hears($ann), "\n", hears($bob), "\n";
$members = json_decode(substr($ann->ask('who?'), strlen('text: ')), true);
usort($members, fn ($one, $other) => $one['user'] <=> $other['user']);
foreach ($members as $member) {
    echo json_encode($member), "\n";
}
echo $bob->leave(), "\n";
$again->close();
echo hears($ann), "\n";
$ann->leave();
?>
--EXPECT--
room join {"user":"ann","info":{"name":"ANN"}}
room join {"user":"bob","info":{"name":"BOB"}}
room join {"user":"bob","info":{"name":"BOB"}}
room join {"user":"eva","info":null}
room join {"user":"eva","info":null}
{"user":"ann","info":{"name":"ANN"},"connections":1}
{"user":"bob","info":{"name":"BOB"},"connections":2}
{"user":"eva","info":null,"connections":1}
close: 1000
room leave {"user":"bob","info":{"name":"BOB"}}
