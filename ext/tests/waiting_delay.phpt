--TEST--
Handlers that wait: others go on, answers of one connection keep their order, the request stays readable
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/late/{name}', function (Request $r) {
    static $kept = [];
    echo "begins {$r->route('name')}\n";
    delay((float) $r->query('s') * (getenv('FERMATA_PHPT_WAIT_S') ? 20 : 1));
    echo "ends {$r->route('name')}\n";
    return Response::text("{$r->method()} {$r->target()} {$r->header('X-Name')} {$r->body()}");
});
$server->get('/now', fn () => Response::text('now'));
$server->get('/zero', function () { delay(0); delay(0.0); return Response::text('zero'); });
PHP);
$slow = $server->connect();
$slow->start('POST', '/late/slow?s=0.4', ['X-Name' => 'one'], 'first body');
$slow->start('POST', '/late/quick?s=0', ['X-Name' => 'two'], 'second body');
$slow->start('GET', '/now');
$server->wait('~~', 0);
while (!str_contains($server->output(), 'begins slow')) { usleep(1000); }
echo $server->get('/now'), "\n", $server->get('/zero'), "\n";
echo $server->request('POST', '/late/other?s=0.01', ['X-Name' => 'three'], 'x'), "\n";
for ($i = 0; $i < 3; $i++) {
    echo $slow->answer(), "\n";
}
echo $slow->request('GET', '/now'), "\n", $server->output();
var_dump($server->stop());
?>
--EXPECT--
200 now
200 zero
200 POST /late/other?s=0.01 three x
200 POST /late/slow?s=0.4 one first body
200 POST /late/quick?s=0 two second body
200 now
200 now
begins slow
begins other
ends other
ends slow
begins quick
ends quick
int(0)
