--TEST--
Hook::Sqlite: a transaction ends with the handler or task that has begun it, however that ends
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$shared = null;
$waits = 0;
$begin = function (callable $then) use (&$shared) {
    if (!$shared) {
        $shared = new PDO('sqlite:left');
        $shared->exec('CREATE TABLE t (who)');
    }
    $shared->beginTransaction();
    $shared->exec("INSERT INTO t VALUES ('lost')");
    return $then();
};
$server->get('/return', fn () => $begin(fn () => Response::text('left')));
$server->get('/statement', function () use ($begin, &$shared) {
    // A statement that is still being read.
    static $kept;
    $begin(fn () => 1);
    $kept = $shared->query('SELECT 1 UNION SELECT 2');
    $kept->fetch();
    return Response::text('left');
});
$server->get('/throw', fn () => $begin(fn () => throw new Exception('left')));
$server->get('/exit', fn () => $begin(function () { exit; }));
$server->get('/timeout', fn () => $begin(fn () => timeout(0.001, fn () => delay(60))));
$server->get('/task', function () use ($begin) { await(async(fn () => $begin(fn () => 1))); return Response::text('left'); });
$server->get('/client', function () use ($begin, &$waits) { $begin(function () use (&$waits) { $waits++; delay(60); }); });
$server->get('/waits', function () use (&$waits) { return Response::text("$waits"); });
// Later writes are complete and durable.
$server->get('/write', function () use (&$shared) {
    $shared->beginTransaction();
    $shared->exec("INSERT INTO t VALUES ('whole')");
    $shared->commit();
    $shared->exec("INSERT INTO t VALUES ('plain')");
    $who = (new PDO('sqlite:left'))->query('SELECT who FROM t')->fetchAll(PDO::FETCH_COLUMN);
    $shared->exec('DELETE FROM t');
    return Response::text(implode(' ', $who));
});
$server->get('/sqlite3', function () {
    $db = new SQLite3('left');
    await(async(function () use ($db) { $db->exec('BEGIN'); $db->exec("INSERT INTO t VALUES ('lost')"); }));
    $db->exec('BEGIN');
    $db->exec("INSERT INTO t VALUES ('whole')");
    $db->exec('COMMIT');
    $who = (new PDO('sqlite:left'))->query('SELECT who FROM t')->fetchAll(PDO::FETCH_COLUMN);
    // If the program forbids the rollback, the log reports that, and the transaction stays open.
    $db->setAuthorizer(fn (int $action, ?string $what) => $what === 'ROLLBACK' ? throw new Exception('not now') : SQLite3::OK);
    await(async(function () use ($db) { $db->exec('BEGIN'); }));
    $db->setAuthorizer(null);
    return Response::text(implode(' ', $who) . ' ' . json_encode($db->exec('ROLLBACK')));
});
PHP, ini: ['-derror_reporting=24575', ...array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")))]);
foreach (['/return', '/statement', '/throw', '/exit', '/timeout', '/task'] as $target) {
    echo $target, ' ', $server->get($target)->status, ' ', $server->get('/write'), "\n";
}
$client = $server->connect();
$client->start('GET', '/client');
$deadline = microtime(true) + WAIT_S;
while ((string) $server->get('/waits') !== '200 1') {
    microtime(true) < $deadline || throw new Exception('/client does not wait');
    usleep(1000);
}
$next = $server->connect();
$next->start('GET', '/write');
$client->cut();
echo '/client ', $next->answer(), "\n", $server->get('/sqlite3'), "\n";
var_dump($server->stop());
echo $server->output(), preg_replace('/^.*?\[worker 0\] /m', '', $server->logged('/transaction|not now/')), "\n";
?>
--EXPECTF--
/return 200 200 whole plain
/statement 200 200 whole plain
/throw 500 200 whole plain
/exit 500 200 whole plain
/timeout 500 200 whole plain
/task 200 200 whole plain
/client 200 whole plain
200 whole true
int(0)
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a task has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a handler has ended in the middle of a SQLite transaction, which was begun in server.php:9 and is rolled back
a task has ended in the middle of a SQLite transaction, which was begun in server.php:40 and is rolled back
a task has ended in the middle of a SQLite transaction, which was begun in server.php:47 and could not be rolled back%A
