--TEST--
Message: bytes, kind, JSON; kept ones own a copy
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{CloseCode, Opcode};

require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$kept = [];
$weak = null;
$server->websocket('/', message: function (WebSocket $socket, Message $message) use (&$kept, &$weak) {
    switch ($message->data()) {
        case 'keep untouched': break;
        case 'kept': foreach ($kept as $one) { $socket->send($one); $socket->send(bin2hex((string) $one) . ' ' . json_encode($one->isBinary())); } $kept = []; return;
        case 'weak': $weak = WeakReference::create($message); $socket->send('weak'); return;
        case 'weak?': $socket->send(json_encode($weak->get() === null)); return;
        case 'clone': $socket->send((clone $message)->data()); return;
        case '{"a":[1,true]}': $socket->send(json_encode([$message->json(), (string) $message, $message, $message->json() === $message->json()])); return;
    }
    $kept[] = $message;
});
$server->websocket('/untouched', message: function (WebSocket $socket, Message $message) { static $last; $socket->send('before: ' . ($last ?? 'none')); $last = $message; });
PHP);
$client = $server->socket('/');
$client->send('one');
$client->send("\x00\xff", Opcode::Binary);
$client->send('');
$client->send(str_repeat('long ', 5));
$client->send('kept');
for ($i = 0; $i < 8; $i++) {
    echo json_encode($client->receive()), "\n";
}
echo $client->ask('weak'), ' ', $client->ask('weak?'), "\n", $client->ask('{"a":[1,true]}'), "\n", $client->ask('clone'), "\n";
$client->close();
$client = $server->socket('/untouched');
echo $client->ask('first'), ', ', $client->ask('second'), ', ', $client->ask('third', Opcode::Binary), ', ', $client->ask('last'), "\n";
?>
--EXPECT--
"text: one"
"text: 6f6e65 false"
"binary: 00ff"
"text: 00ff true"
"text: "
"text:  false"
"text: long long long long long "
"text: 6c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e6720 false"
text: weak text: true
text: [{"a":[1,true]},"{\"a\":[1,true]}","{\"a\":[1,true]}",true]
close: 1011
text: before: none, text: before: first, text: before: second, text: before: third
