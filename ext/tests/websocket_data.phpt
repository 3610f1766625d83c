--TEST--
setData() keeps a value for one connection and releases it after close()
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
class Value {
    public function __construct(public string $name, private ?Closure $end = null) {}
    public function __destruct() { echo "released $this->name\n"; $this->end?->call($this); }
}
$server->websocket('/', open: fn (WebSocket $socket) => $socket->setData(new Value($socket->data() ?? 'plain')),
    upgrade: fn (Upgrade $upgrade) => [$upgrade->setData('first'), $upgrade->setData($upgrade->request()->query('name'))],
    message: function (WebSocket $socket, Message $message) {
        switch ((string) $message) {
            case 'name': $socket->send($socket->data()?->name ?? 'none'); break;
            case 'null': $socket->setData(null); $socket->send('done'); break;
            case 'array': $socket->setData(['a']); $socket->setData(1.5); $socket->send(json_encode($socket->data())); break;
            case 'throws': $socket->setData(new Value('throws', fn () => throw new Exception('from destructor'))); $socket->close(); break;
            case 'exits': $socket->setData(new Value('exits', fn () => exit)); $socket->close(); break;
            case 'again': $socket->setData(new Value('again', function () use ($socket) {
                try { $socket->setData('more'); } catch (Exception $e) { echo $e::class, "\n"; } })); $socket->close(); break;
            case 'nested': $socket->setData(new Value('outer', fn () => $socket->setData(new Value('inner')))); $socket->setData(new Value('next')); $socket->send($socket->data()->name); break;
        }
    }, close: fn (WebSocket $socket) => print('close ' . ($socket->data()?->name ?? 'none') . "\n"));
$server->websocket('/quiet', open: fn (WebSocket $socket) => $socket->setData(new Value('without close()')));
PHP);
$client = $server->socket('/?name=ann');
$plain = $server->socket('/');
echo $client->ask('name'), "\n", $plain->ask('name'), "\n", $plain->ask('null'), "\n", $plain->ask('name'), "\n", $plain->ask('array'), "\n";
echo $client->ask('nested'), "\n", $client->leave(), "\n", $plain->leave(), "\n";
foreach (['throws', 'exits', 'again'] as $how) {
    $client = $server->socket('/');
    echo $client->ask($how), "\n";
    $client->close();
    $client->receive();
}
$quiet = $server->socket('/quiet');
echo $quiet->leave(), "\n";
$server->wait('/from destructor/');
echo $server->socket('/?name=last')->ask('name'), "\n";
var_dump($server->stop());
echo $server->output(), preg_replace('/^.*(Exception:)/', '$1', $server->logged('/from destructor/')), "\n";
?>
--EXPECT--
text: ann
text: plain
text: done
text: none
text: 1.5
text: inner
close: 1000
close: 1000
close: 1000
close: 1000
close: 1000
close: 1000
text: last
int(0)
released plain
released ann
released outer
released next
close inner
released inner
close none
released plain
close throws
released throws
released plain
close exits
released exits
released plain
close again
released again
Fermata\Exception\ConnectionClosedException
released without close()
close last
released last
Exception: from destructor in server.php:12
