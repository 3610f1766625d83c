--TEST--
What belongs to a handler that waits stays its own: output buffers, silenced errors, the last errors, time limit, request
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/buffer/{n}', function (Request $r) {
    $n = $r->route('n');
    ob_start(); echo "outer $n "; ob_start(fn ($text) => strtoupper($text)); echo "inner $n ";
    delay(0.02 * (int) $n);
    echo "after $n ";
    ob_end_flush();
    return Response::text(ob_get_clean() . ob_get_level());
});
$server->get('/plain', function () { $before = ob_get_level(); delay(0.03); return Response::text("$before " . ob_get_level()); });
$server->get('/silent', function () { $x = @(function () { delay(0.03); return $undefined; })(); return Response::text('silent ' . error_reporting()); });
$server->get('/loud', function () { delay(0.01); return Response::text((string) error_reporting()); });
$server->get('/fails', function () { @trigger_error('mine'); delay(0.03); return Response::text(error_get_last()['message'] ?? 'none'); });
$server->get('/succeeds', function () { $before = error_get_last(); delay(0.05); return Response::text(json_encode([$before, error_get_last()])); });
$server->get('/malformed', function () { json_decode('{'); preg_match('/./u', "\xff"); delay(0.03); return Response::text(json_last_error() . ' ' . preg_last_error()); });
$server->get('/wellformed', function () { $before = json_last_error() . preg_last_error(); delay(0.05); return Response::text("$before " . json_last_error() . preg_last_error()); });
$server->get('/limit', function () { set_time_limit(7); delay(0.02); return Response::text(ini_get('max_execution_time')); });
$server->get('/limitless', function () { delay(0.01); delay(0.03); return Response::text(ini_get('max_execution_time')); });
$server->get('/reference/{n}', function (Request $r) { static $all = []; $all[] = $r; delay(0.01); return Response::text(implode(',', array_map(fn ($r) => $r->route('n'), $all))); });
PHP, ini: ['-derror_reporting=32767', '-dimplicit_flush=1']);
$ask = function (string ...$targets) use ($server) {
    $connections = [];
    foreach ($targets as $target) {
        $connections[] = $connection = $server->connect();
        $connection->start('GET', $target);
        usleep(2000);
    }
    foreach ($connections as $connection) {
        echo $connection->answer(), "\n";
    }
};
$ask('/buffer/3', '/buffer/1', '/plain', '/buffer/2');
$ask('/silent', '/loud');
$ask('/fails', '/succeeds', '/fails');
$ask('/succeeds');
$ask('/malformed', '/wellformed', '/malformed');
$ask('/wellformed');
$ask('/limit');
$ask('/limitless');
$ask('/reference/a', '/reference/b');
$ask('/reference/c');
var_dump($server->stop());
echo $server->output(), $server->logged('/undefined/'), "\n";
?>
--EXPECTF--
200 outer 3 INNER 3 AFTER 3 0
200 outer 1 INNER 1 AFTER 1 0
200 0 0
200 outer 2 INNER 2 AFTER 2 0
200 silent 32767
200 32767
200 mine
200 [null,null]
200 mine
200 [null,null]
200 4 4
200 00 00
200 4 4
200 00 00
200 7
200 0
200 a,b
200 a,b
200 a,b,c
int(0)

