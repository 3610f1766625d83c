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
function envelope(string $told): string { return preg_replace('/"id":"[^"]+"/', '"id":"…"', $told); }
$ann = $server->socket('/ann');
echo envelope($ann->receive()), "\n";
$bob = $server->socket('/bob');
echo envelope($ann->receive()), "\n", envelope($bob->receive()), "\n";
$again = $server->socket('/bob');
$eva = $server->connect();
$eva->start('GET', '/events');
$eva->head();
echo envelope($ann->receive()), "\n", $ann->ask('who?'), "\n";
$again->leave();
$bob->leave();
echo envelope($ann->receive()), "\n";
?>
--EXPECT--
