--TEST--
Hook::Sqlite: the memory limit in a function that SQLite calls, and while others are inside: 500, 503 for them, nothing half written
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip the limit is the Zend allocator\'s');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$inside = 0;
$open = function () { $pdo = new PDO('sqlite:limit'); $pdo->sqliteCreateFunction('is_over', fn () => 0); return $pdo; };
$open()->exec('CREATE TABLE t (a)');
$server->get('/wait', function () use ($open, &$inside) {
    $pdo = $open();
    $pdo->exec('PRAGMA journal_mode=wal');
    $pdo->beginTransaction();
    $pdo->exec('INSERT INTO t VALUES (1)');
    $inside++;
    $pdo->exec('INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE NOT is_over()) SELECT max(x) FROM c');
});
$server->get('/called', function () use ($open) {
    $pdo = $open();
    $pdo->sqliteCreateFunction('much', fn () => strlen(str_repeat('x', 1 << 30)));
    return Response::text($pdo->query('SELECT much()')->fetchColumn());
});
$server->get('/once', fn () => Response::text((string) strlen(str_repeat('x', 1 << 30))));
$server->get('/state', function () use (&$inside) { return Response::text((string) $inside); });
$server->get('/count', fn () => Response::text($open()->query('SELECT count(*) FROM t')->fetchColumn()));
PHP, 'workers: 1', ['-dmemory_limit=16M', '-derror_reporting=24575', ...array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")))]);
$wait = function (string $state) use ($server) {
    $deadline = microtime(true) + WAIT_S;
    do {
        try {
            $is = $server->get('/state')->body;
        } catch (Exception) {
            $is = '';
        }
    } while ($is !== $state && microtime(true) < $deadline);
    echo $is, "\n";
};
foreach (['/once', '/called'] as $target) {
    $waiting = $server->connect();
    $waiting->start('GET', '/wait');
    $wait('1');
    echo $target, ' ', $server->get($target)->status, ' ', $waiting->answer()->status, "\n";
    $wait('0');
    echo $server->get('/count'), "\n";
}
var_dump(substr_count($server->log(), 'Allowed memory size'), $server->stop());
echo $server->output(), $server->logged('/by signal|crash/');
?>
--EXPECT--
1
/once 500 503
0
200 0
1
/called 500 503
0
200 0
int(2)
int(0)
