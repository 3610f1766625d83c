--TEST--
SQLite: temporary tables and views end with the handler, or when their connection comes back to its pool
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
use Fermata\Pool;
function make(PDO|SQLite3 $db): void
{
    $db->exec("CREATE TEMP TABLE \"se\"\"cret\" (x); INSERT INTO temp.\"se\"\"cret\" VALUES ('of alice'), ('of alice')");
    $db->exec('CREATE TEMPORARY VIEW "all" AS SELECT * FROM "se""cret"');
    // Neither can be dropped before the other while foreign keys are on.
    $db->exec('CREATE TEMP TABLE one (x PRIMARY KEY, y REFERENCES two (x) DEFERRABLE INITIALLY DEFERRED)');
    $db->exec('CREATE TEMP TABLE two (x PRIMARY KEY, y REFERENCES one (x) DEFERRABLE INITIALLY DEFERRED)');
    $db->exec('BEGIN; INSERT INTO one VALUES (1, 1); INSERT INTO two VALUES (1, 1); COMMIT');
}
function find(PDO|SQLite3 $db): array
{
    $count = 'SELECT (SELECT COUNT(*) FROM sqlite_temp_master), (SELECT COUNT(*) FROM kept), (SELECT foreign_keys FROM pragma_foreign_keys)';
    return $db instanceof PDO ? $db->query($count)->fetch(PDO::FETCH_NUM) : $db->query($count)->fetchArray(SQLITE3_NUM);
}
function open(string $kind): PDO|SQLite3
{
    $db = $kind === 'pdo' ? new PDO('sqlite::memory:') : new SQLite3(':memory:');
    $db->exec('PRAGMA foreign_keys = ON; CREATE TABLE kept (template)');
    return $db;
}
$unread = [];
foreach (['pdo', 'sqlite3'] as $kind) {
    $pool = new Pool(fn () => open($kind), size: 1);
    $shared = null;
    $server->get("/pool/$kind/make", fn () => Response::json($pool->use(fn ($db) => make($db))));
    $server->get("/pool/$kind/find", fn () => Response::json($pool->use(fn ($db) => find($db))));
    $server->get("/shared/$kind/make", function () use (&$shared, $kind) {
        $shared ??= open($kind);
        return Response::json(make($shared));
    });
    $server->get("/shared/$kind/read", function () use (&$shared, &$unread) {
        make($shared);
        // Reads only the first row: a table that is being read could not be dropped.
        $unread[] = $rows = $shared->query('SELECT * FROM "se""cret"');
        $rows instanceof PDOStatement ? $rows->fetch() : $rows->fetchArray();
        return Response::json(null);
    });
    $server->get("/shared/$kind/find", function () use (&$shared) { return Response::json(find($shared)); });
    unset($shared);
}
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
foreach (['', 'Fermata\Runtime::hook(Fermata\Hook::Sqlite);'] as $hook) {
    $server = new TestServer($hook . $program, ini: $ini);
    foreach (['pdo', 'sqlite3'] as $kind) {
        foreach ($hook ? ['pool', 'shared'] : ['pool'] as $mode) {
            echo "$mode $kind: ", $server->get("/$mode/$kind/make"), ' ', $server->get("/$mode/$kind/find"), "\n";
        }
        echo $hook ? "unread $kind: " . $server->get("/shared/$kind/read") . ' ' . $server->get("/shared/$kind/find") . "\n" : '';
    }
    var_dump($server->stop());
    echo $server->logged('/error/');
}
?>
--EXPECT--
pool pdo: 200 null 200 [0,0,1]
pool sqlite3: 200 null 200 [0,0,1]
int(0)
pool pdo: 200 null 200 [0,0,1]
shared pdo: 200 null 200 [0,0,1]
unread pdo: 200 null 200 [0,0,1]
pool sqlite3: 200 null 200 [0,0,1]
shared sqlite3: 200 null 200 [0,0,1]
unread sqlite3: 200 null 200 [0,0,1]
int(0)
