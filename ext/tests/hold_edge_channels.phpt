--TEST--
A Hold behind an edge: as many channels as the settings allow, each with what its client has missed
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$encode = fn (string $bytes) => rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
$signed = $encode('{"alg":"HS256"}') . '.' . $encode('{"exp":20000000000}');
$token = "$signed." . $encode(hash_hmac('sha256', $signed, 'secret', true));

$server = new TestServer(<<<'PHP'
$server->get('/events', fn () => Hold::sse(...array_map(fn (int $i) => "c$i", range(1, 70))));
$server->post('/{channel}', fn (Request $r) => Response::text(Channel::get($r->route('channel'))->publish(new Event($r->body()))));
PHP, "workers: 1, gripUrl: 'http://127.0.0.1:9?key=secret'", ['-dfermata.channels_per_hold_max=100', '-dfermata.headers_count_max=100']);
$first = $server->get('/events', ['Grip-Sig' => $token]);
preg_match_all('/(c\d+); prev-id=([^,;]+)/', $first->header('grip-channel'), $lasts, PREG_SET_ORDER);
echo count($lasts), "\n";
foreach ([1, 64, 65, 70] as $i) {
    $server->request('POST', "/c$i", body: "missed $i");
}
$next = $server->get('/events', ['Grip-Sig' => $token, 'Grip-Last' => array_map(fn (array $last) => "$last[1]; last-id=$last[2]", $lasts)]);
preg_match_all('/^data: (\S.*)/m', $next->body, $missed);
echo $next->status, ' ', implode(', ', $missed[1]), "\n";
var_dump($server->stop());
?>
--EXPECT--
70
200 missed 1, missed 64, missed 65, missed 70
int(0)
