--TEST--
Pool: a transaction of SQLite ends when its connection comes back, before the same handler borrows it again
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Pool;
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$server->get('/', function () {
    $pool = new Pool(fn () => new PDO('sqlite::memory:'), size: 1);
    $pool->use(fn (PDO $db) => $db->exec('CREATE TABLE t (a INT)'));
    $pool->use(function (PDO $db) { $db->beginTransaction(); $db->exec('INSERT INTO t VALUES (1)'); });
    return Response::text($pool->use(fn (PDO $db) => json_encode([$db->inTransaction(), $db->query('SELECT COUNT(*) FROM t')->fetchColumn()])));
});
PHP, ini: ['-dextension=pdo', '-dextension=pdo_sqlite']);
echo $server->get('/'), "\n";
var_dump($server->stop());
?>
--EXPECT--
200 [false,0]
int(0)
