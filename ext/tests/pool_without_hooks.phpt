--TEST--
Pool: what is open in a connection ends although nothing is hooked, and the connection is kept
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

foreach (['', 'Fermata\Runtime::hook(Fermata\Hook::Streams);'] as $hook) {
    $server = new TestServer($hook . <<<'PHP'
    use Fermata\Pool;
    $opened = 0;
    $pool = new Pool(function () use (&$opened) {
        $opened++;
        $db = new PDO('sqlite::memory:');
        $db->exec('CREATE TABLE t (a)');
        return $db;
    }, size: 1);
    $server->get('/begin/{how}', function (Request $request) use ($pool) {
        $how = $request->route('how');
        $pool->use(function (PDO $db) use ($how) {
            $how === 'method' ? $db->beginTransaction() : $db->exec('BEGIN');
            $db->exec('INSERT INTO t VALUES (1)');
            $how === 'throw' && throw new DomainException('thrown');
        });
        return Response::text('left');
    });
    $server->get('/next', function () use ($pool, &$opened) {
        return Response::json($pool->use(fn (PDO $db) => [$db->inTransaction(), $db->query('SELECT COUNT(*) FROM t')->fetchColumn(), $opened]));
    });
    $lites = new Pool(function () use (&$opened) { $opened++; return new SQLite3(':memory:'); }, size: 1);
    $server->get('/lite/{how}', function (Request $request) use ($lites) {
        return Response::json($lites->use(function (SQLite3 $db) use ($request) {
            match ($request->route('how')) {
                'begin' => $db->exec('BEGIN; CREATE TABLE t (a)'),
                'close' => $db->close(),
                'next' => 1,
            };
            return $request->route('how') === 'next' ? $db->querySingle('SELECT COUNT(*) FROM sqlite_master') : null;
        }));
    });
    PHP, ini: array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so"))));
    foreach (['method', 'text', 'throw'] as $how) {
        $server->get("/begin/$how");
        echo $server->get('/next'), "\n";
    }
    foreach (['begin', 'close'] as $how) {
        echo $server->get("/lite/$how"), ' ', $server->get('/lite/next'), "\n";
    }
    var_dump($server->stop());
}
?>
--EXPECT--
200 [false,0,1]
200 [false,0,1]
200 [false,0,1]
200 null 200 0
200 null 200 0
int(0)
200 [false,0,1]
200 [false,0,1]
200 [false,0,1]
200 null 200 0
200 null 200 0
int(0)
