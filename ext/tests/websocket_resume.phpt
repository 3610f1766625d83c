--TEST--
join(since:) replays what was missed, and reports what is gone
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/say', function (Request $r) { Channel::get('room')->publish(new Event($r->body(), 'said')); return Response::accepted(); });
$server->websocket('/', message: fn (WebSocket $socket, Message $message) => $socket->join('room', since: (string) $message, format: Format::Json));
PHP, "workers: 1, history: new History(count: 3)");
$client = $server->socket('/');
$client->send('');
$client->send('are you there?', Opcode::Ping);
while (($told = $client->receive()) !== 'pong: are you there?') {
    echo 'before: ', json_decode(substr($told, strlen('text: ')))->event, "\n";
}
$say = fn (string $text) => $server->request('POST', '/say', [], $text);
$say('one');
$first = json_decode(substr($client->receive(), 6), true);
echo $first['event'], ' ', $first['data'], "\n";
$client->leave();
foreach (['two', 'three'] as $text) { $say($text); }
$resume = function (string $since, int $count) use ($server): void {
    $client = $server->socket('/');
    $client->send($since);
    for ($i = 0; $i < $count; $i++) {
        $told = json_decode(substr($client->receive(), 6), true);
        echo "$told[event] $told[data]; ";
    }
    echo "\n";
};
$resume($first['id'], 2);
foreach (['four', 'five'] as $text) { $say($text); }
$resume($first['id'], 4);
$resume('nonsense', 1);
?>
--EXPECT--
before: position
said one
said two; said three; 
gap {"reason":"expired"}; said three; said four; said five; 
gap {"reason":"unknown id"};
