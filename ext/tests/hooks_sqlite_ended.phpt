--TEST--
Hook::Sqlite: clients that leave, exit(), a fatal error, kill -9 and a stopping server while others are inside SQLite
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE NOT is_over()) SELECT max(x) > 0 FROM c';
[$inside, $left] = [0, 0];
$open = function () { $pdo = new PDO('sqlite:ended'); $pdo->sqliteCreateFunction('is_over', fn () => 0); return $pdo; };
$open()->exec('CREATE TABLE t (a)');
$server->get('/wait', function () use ($open, $endless, &$inside, &$left) {
    $inside++;
    try { return Response::text($open()->query($endless)->fetchColumn()); } catch (Fermata\Exception\ClientGoneException $e) {
        $left++;
        throw $e;
    } finally { $inside--; }
});
/** In the middle of a transaction, all on one connection. */
$shared = null;
$server->get('/shared', function () use ($open, $endless, &$shared, &$inside) {
    $shared ??= $open();
    $inside++;
    try {
        $shared->beginTransaction();
        $shared->exec('INSERT INTO t VALUES (1)');
        return Response::text($shared->query($endless)->fetchColumn());
    } finally { $inside--; if ($shared->inTransaction()) { $shared->rollBack(); } }
});
$server->get('/state', function () use (&$inside, &$left) { return Response::text("$inside $left"); });
$server->get('/count', fn () => Response::text($open()->query('SELECT count(*) FROM t')->fetchColumn()));
$server->get('/exit', function () use ($open) {
    $pdo = $open();
    $pdo->sqliteCreateFunction('leave', function () { exit; });
    $pdo->query('SELECT leave()');
});
$server->get('/pid', fn () => Response::text((string) getmypid()));
$server->get('/fatal', function () { trigger_error('the end', E_USER_ERROR); });
PHP, 'workers: 1', array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so"))));
$ask = function (string $target) use ($server): string {
    // A worker that has exited is replaced.
    try { return (string) $server->get($target); } catch (Exception $e) { return $e->getMessage(); }
};
$wait = function (string $state) use ($ask) {
    $deadline = microtime(true) + WAIT_S;
    while (($is = $ask('/state')) !== "200 $state") {
        microtime(true) < $deadline || throw new Exception("$is is not $state");
        usleep(1000);
    }
    echo $state, "\n";
};
$clients = [];
foreach (['/wait', '/wait', '/shared', '/shared'] as $target) {
    $clients[] = $client = $server->connect();
    $client->start('GET', $target);
}
// The second handler of the shared connection has not started: it queues.
$wait('4 0');
$clients[3]->cut();
$wait('3 0');
$clients[0]->cut();
$wait('2 1');
$clients[2]->cut();
$wait('1 1');
echo $server->get('/count'), "\n", $server->get('/exit')->status, "\n";
$clients[] = $client = $server->connect();
$client->start('GET', '/shared');
$wait('2 1');
// The others cannot continue, and the connections that they were using are not touched again.
echo $server->get('/fatal')->status, "\n", $clients[1]->answer()->status, ' ', $client->answer()->status, "\n";
$wait('0 0');
echo $server->get('/count'), "\n";
// Uncommitted changes of a killed worker are lost.
$client = $server->connect();
$client->start('GET', '/shared');
$wait('1 0');
exec('kill -9 ' . $server->get('/pid')->body);
$wait('0 0');
echo $server->get('/count'), "\n";
$client = $server->connect();
$client->start('GET', '/wait');
$wait('1 0');
var_dump($server->stop());
echo preg_match_all('/still waits/', $server->log()), $server->output();
?>
--EXPECTF--
4 0
3 0
2 1
1 1
200 0
500
2 1
500
503 503
0 0
200 0
1 0
0 0
200 0
1 0
int(0)
1%A
