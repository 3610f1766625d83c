--TEST--
Channel::publish() takes an Event, a string or a message of a WebSocket
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/{what}', function (Request $r) {
    Channel::get('news')->publish(match ($r->route('what')) { 'event' => new Event('an event', 'named'), 'string' => 'a string', 'number' => 7, 'other' => $r });
    return Response::accepted();
});
$server->websocket('/ws', message: fn (WebSocket $socket, Message $message) => $socket->send(Channel::get('news')->publish($message) !== '' ? 'done' : ''));
$server->get('/', fn () => Response::json(array_map(fn (Event $e) => [$e->name, $e->data], Channel::get('news')->history())));
PHP);
foreach (['event', 'string', 'other'] as $what) {
    echo $server->get("/$what")->status, "\n";
}
$socket = $server->socket('/ws');
echo $socket->ask('a message'), "\n";
echo $server->get('/'), "\n";
echo preg_replace('/^.*TypeError/', 'TypeError', $server->logged('/TypeError/')), "\n";
?>
--EXPECTF--
202
202
500
text: done
200 [["named","an event"],[null,"a string"],[null,"a message"]]
TypeError: Fermata\Channel::publish(): Argument #1 ($event) must be of type Fermata\Event|Fermata\WebSocket\Message|string, Fermata\Request given in server.php:%d
