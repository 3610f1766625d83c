--TEST--
What accept() and refuse() cannot do is a MisuseError
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/', upgrade: function (Upgrade $upgrade) {
    $try = function (callable $do) { try { $do(); return 'nothing'; } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); } };
    $told[] = $try(fn () => $upgrade->accept('v2'));
    $told[] = $try(fn () => $upgrade->accept(headers: ['Upgrade' => 'h2c']));
    $told[] = $try(fn () => $upgrade->accept(headers: ['sec-websocket-protocol' => 'v1']));
    $told[] = $try(fn () => $upgrade->accept(headers: ['X' => "a\r\nb: c"]));
    $told[] = $try(fn () => $upgrade->accept(headers: ['x']));
    $told[] = $try(fn () => $upgrade->accept(headers: ['X' => 1]));
    $told[] = $try(fn () => $upgrade->refuse(101));
    $told[] = $try(fn () => $upgrade->refuse(600));
    $upgrade->accept('v1');
    $told[] = $try(fn () => $upgrade->accept());
    $told[] = $try(fn () => $upgrade->refuse());
    $told[] = $try(fn () => clone $upgrade);
    $upgrade->setData([$upgrade, $told, $try]);
}, open: function (WebSocket $socket) {
    [$upgrade, $told, $try] = $socket->data();
    $told[] = $try(fn () => $upgrade->accept());
    $told[] = $try(fn () => $upgrade->refuse());
    $told[] = $try(fn () => $upgrade->setData(1));
    $told[] = $upgrade->request()->path() . ' ' . implode(',', $upgrade->protocols());
    foreach ($told as $line) { $socket->send($line); }
    $socket->close();
}, options: new Options(protocols: ['v1']));
PHP);
$client = $server->socket('/', ['Sec-WebSocket-Protocol' => 'v1']);
while (!str_starts_with($told = $client->receive(), 'close')) {
    echo substr($told, strlen('text: ')), "\n";
}
?>
--EXPECT--
Fermata\Exception\MisuseError: the client does not offer the subprotocol "v2"; accept one of protocols(), or null
Fermata\Exception\MisuseError: header "Upgrade" frames the message and is the server's to send; leave it out
Fermata\Exception\MisuseError: header "sec-websocket-protocol" belongs to the handshake and is the server's to send; a subprotocol is an argument of accept()
Fermata\Exception\MisuseError: the value of header "X" has a line break or another control character
TypeError: Fermata\WebSocket\Upgrade::accept(): Argument #2 ($headers) must have header names as keys
TypeError: Fermata\WebSocket\Upgrade::accept(): Argument #2 ($headers) must hold a string or a list of strings for "X", int given
Fermata\Exception\MisuseError: refuse() takes a status from 300 to 599, or a Response, not 101
Fermata\Exception\MisuseError: refuse() takes a status from 300 to 599, or a Response, not 600
Fermata\Exception\MisuseError: the upgrade is accepted already
Fermata\Exception\MisuseError: the upgrade is accepted already
Error: Trying to clone an uncloneable object of class Fermata\WebSocket\Upgrade
Fermata\Exception\MisuseError: upgrade() has returned and the client is answered
Fermata\Exception\MisuseError: upgrade() has returned and the client is answered
Fermata\Exception\MisuseError: upgrade() has returned and the client is answered
/ v1
