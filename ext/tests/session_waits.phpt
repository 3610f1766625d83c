--TEST--
A wait for the lock of a session ends: at once where the worker has it itself, after shared_wait_timeout_ms, and behind shield() after abandoned_wait_ms_max
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
session_save_path(__DIR__);
$server->get('/own', function (Request $r) {
    static $kept;
    $r->fillGlobals();
    $kept = fopen(__DIR__ . '/sess_' . $r->cookie('PHPSESSID'), 'c');
    flock($kept, LOCK_EX);
    try {
        session_start();
    } catch (Throwable $e) {
        $kept = null;
        return Response::text($e::class . ' ' . session_status());
    }
    return Response::text('opened');
});
$server->get('/other', function (Request $r) {
    $r->fillGlobals();
    try {
        shield(fn () => session_start());
    } catch (Throwable $e) {
        return Response::text($e::class . ' ' . session_status());
    }
    return Response::text('opened');
});
$server->get('/shield', function (Request $r) {
    try {
        shield(fn () => delay(1000));
    } catch (Throwable $e) {
        file_put_contents(__DIR__ . '/ended', $e::class);
        throw $e;
    }
});
$server->get('/inside', function (Request $r) {
    shield(function () { delay(0.2); file_put_contents(__DIR__ . '/inside', 'done'); });
    return Response::text('');
});
$server->get('/', fn () => Response::text('served'));
PHP, 'workers: 1, limits: new Limits(handlers: 1)', ['-dfermata.shared_wait_timeout_ms=300', '-dfermata.abandoned_wait_ms_max=1500']);

$id = str_repeat('c', 32);
$cookie = ['Cookie' => "PHPSESSID=$id"];
$begun = microtime(true);
echo $server->get('/own', $cookie), "\n", json_encode(microtime(true) - $begun < 0.25 || SLOW !== []), "\n";

$lock = fopen($server->folder() . "/sess_$id", 'c');
flock($lock, LOCK_EX);
echo $server->get('/other', $cookie), "\n";
flock($lock, LOCK_UN);
echo $server->get('/other', $cookie), "\n";

$until = static function (string $name) use ($server): string {
    for ($end = microtime(true) + WAIT_S; !is_file($server->folder() . "/$name") && microtime(true) < $end;) {
        usleep(10_000);
    }
    return (string) @file_get_contents($server->folder() . "/$name");
};
// A handler whose client leaves continues to wait, but not forever.
foreach (['inside', 'shield'] as $path) {
    $client = $server->connect();
    $client->start('GET', "/$path");
    usleep(50_000);
    $client->cut();
    echo "$path: ", $until($path === 'shield' ? 'ended' : 'inside'), "\n";
}
echo $server->get('/'), "\n", $server->stop(), $server->logged('/its wait was ended/'), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));
?>
--EXPECTF--
200 Fermata\Exception\MisuseError 1
true
200 Fermata\Exception\TimeoutException 1
200 opened
inside: done
shield: Fermata\Exception\TimeoutException
200 served
0%s warning [worker 0] the client of a handler left 1500 ms ago, and the handler still waited behind shield(): its wait was ended (abandoned_wait_ms_max) in server.php:26%A
