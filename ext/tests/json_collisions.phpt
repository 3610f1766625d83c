--TEST--
Request::json(): member names that PHP would store in one chain are refused, and cost no time; many names that are not are taken
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json(count($r->json())), bodyBytes: 4_000_000);
$server->websocket('/ws', message: fn (WebSocket $socket, Message $message) => $socket->send((string) count($message->json())));
PHP);

// "Ez", "FY" and "G8" have the same hash in PHP, and so have all concatenations of equal numbers of them.
$strings = [''];
while (count($strings) < 50_000) {
    $strings = array_merge(...array_map(fn ($word) => ["{$word}Ez", "{$word}FY", "{$word}G8"], $strings));
}
$json = fn (array $names) => '{' . implode(',', array_map(fn ($name) => "\"$name\":1", $names)) . '}';
$cases = [
    'strings' => $json($strings),
    'numbers' => $json(array_map(fn ($n) => $n << 20, range(1, 60_000))),
    'nested' => '[' . implode(',', array_fill(0, 40, $json(array_slice($strings, 0, 1500)))) . ']',
    'honest' => $json(array_map(fn ($n) => "name-$n", range(1, 60_000))),
    'honest numbers' => $json(array_map(fn ($n) => $n * 1000, range(1, 60_000))),
    'few that meet' => $json(array_slice($strings, 0, 1000)),
];
foreach ($cases as $name => $body) {
    $start = hrtime(true);
    $answer = $server->request('POST', '/', [], $body);
    $seconds = (hrtime(true) - $start) / 1e9;
    echo "$name: ", trim((string) $answer), $seconds < 5 ? '' : " took $seconds s", "\n";
}
$socket = $server->socket('/ws');
echo $socket->ask($cases['numbers']), "\n";
?>
--EXPECT--
strings: 400 the JSON has too many member names that PHP stores in one place
numbers: 400 the JSON has too many member names that PHP stores in one place
nested: 400 the JSON has too many member names that PHP stores in one place
honest: 200 60000
honest numbers: 200 60000
few that meet: 200 1000
close: 1007 the JSON has too many member names that PHP stores in one place
