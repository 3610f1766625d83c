--TEST--
The lock of a session is waited for without the loop; a wait that is ended leaves the session alone; all workers count right
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
session_save_path(__DIR__);
session_name('own');
file_put_contents(__DIR__ . '/file.txt', 'file');
$server->static('/static', __DIR__);
$server->get('/count', function (Request $r) {
    $r->fillGlobals();
    session_start();
    $before = $_SESSION['count'] ?? 0;
    delay(0.01);
    $_SESSION['count'] = $before + 1;
    return Response::text((string) $_SESSION['count']);
});
$server->get('/timeout', function (Request $r) {
    $r->fillGlobals();
    try {
        timeout(0.05, fn () => session_start());
    } catch (Fermata\Exception\TimeoutException) {
        $_SESSION['count'] = -1;
        return Response::text('in time ' . session_status());
    }
    return Response::text('opened');
});
$server->get('/swallowed', function (Request $r) {
    $r->fillGlobals();
    session_set_save_handler(new class extends SessionHandler {
        public function read(string $id): string|false { try { return parent::read($id); } catch (Fermata\Exception\TimeoutException) { return ''; } }
    });
    try { timeout(0.05, function () { session_start(); $_SESSION['count'] = -2; }); } catch (Fermata\Exception\TimeoutException) { }
    return Response::text('status ' . session_status());
});
PHP, 'workers: 2, limits: new Limits(handlers: 1)');

$cookie = ['Cookie' => 'own=' . str_repeat('a', 32)];
echo $server->get('/count', $cookie), "\n";
$count = fn () => preg_match('/i:(\d+);/', file_get_contents($server->folder() . '/sess_' . str_repeat('a', 32)), $found) ? $found[1] : 'none';

// Another process holds the session.
$lock = fopen($server->folder() . '/sess_' . str_repeat('a', 32), 'r');
flock($lock, LOCK_EX);
echo $server->get('/timeout', $cookie), "\n", $server->get('/swallowed', $cookie), "\n", $count(), "\n";
$waiting = [];
for ($i = 0; $i < 2; $i++) {
    $waiting[] = $one = $server->connect();
    $one->start('GET', '/count', $cookie);
}
for ($i = 0; $i < 20; $i++) {
    $files[] = (string) $server->connect()->request('GET', '/static/file.txt');
}
echo implode(' ', array_unique($files)), ' ', $count(), "\n";
// One of the waiting clients leaves.
array_pop($waiting)->cut();
flock($lock, LOCK_UN);
echo $waiting[0]->answer()->status, "\n";

// Both workers at the same time, repeatedly.
$clients = [];
for ($i = 0; $i < 12; $i++) {
    $clients[] = $one = $server->connect();
    $one->start('GET', '/count', $cookie);
}
$counts = array_map(fn ($client) => (int) $client->answer()->body, $clients);
sort($counts);
// The client that left may have been counted as well.
echo count(array_unique($counts)), ' ', json_encode(end($counts) - $counts[0] <= 12 && $count() >= end($counts)), "\n";
echo $server->stop(), $server->logged('/error|stopping at once/'), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));
?>
--EXPECT--
200 1
200 in time 1
200 status 1
1
200 file 1
200
12 true
0
