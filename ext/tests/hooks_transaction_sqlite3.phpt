--TEST--
Hooks: a transaction in a SQLite3 object without its hook is rolled back with the handler that has left it open
--EXTENSIONS--
fermata
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sleep);
final class Database extends SQLite3 {}
$databases = ['own' => new SQLite3(__DIR__ . '/database'), 'extended' => new Database(':memory:')];
$begun = 0;
foreach ($databases as $kind => $db) {
    $db->enableExceptions(true);
    $db->exec('CREATE TABLE words (word TEXT)');
    $server->get("/$kind/begin/{how}", function (string $how) use ($db, &$begun) {
        $db->exec('BEGIN');
        $db->exec("INSERT INTO words VALUES ('$how')");
        $begun++;
        match ($how) {
            'return' => null,
            'throw' => throw new Exception('thrown'),
            'exit' => exit,
            'slow' => delay(0.1),
            'commit' => $db->exec('COMMIT'),
            'closed' => (fn () => $db->close() && $db->open(':memory:'))(),
        };
        return Response::text('');
    });
    $server->get("/$kind/next", function () use ($db) {
        $db->exec('BEGIN');
        $count = $db->querySingle('SELECT COUNT(*) FROM words');
        $db->exec('ROLLBACK');
        return Response::json($count);
    });
}
$pool = new Fermata\Pool(fn () => new SQLite3(':memory:'), 1);
$server->get('/pool', function () use ($pool) {
    $began = $pool->use(fn (SQLite3 $db) => $db->exec('BEGIN'));
    return Response::json([$began, $pool->use(fn (SQLite3 $db) => @$db->exec('BEGIN'))]);
});
$server->get('/begun', function () use (&$begun) { return Response::json($begun); });
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
$begun = 0;
foreach (['own', 'extended'] as $kind) {
    foreach (['return', 'throw', 'exit'] as $how) {
        $server->get("/$kind/begin/$how");
        $begun++;
        echo "$kind $how: ", $server->get("/$kind/next"), "\n";
    }
    // Other handlers queue until the transaction is over.
    $slow = $server->connect();
    $slow->start('GET', "/$kind/begin/slow");
    $begun++;
    for ($deadline = microtime(true) + WAIT_S; (int) $server->get('/begun')->body < $begun && microtime(true) < $deadline;) {
        usleep(1000);
    }
    echo "$kind slow: ", $server->get("/$kind/next"), ' ', $slow->answer()->status, "\n";
    $server->get("/$kind/begin/commit");
    $begun++;
    echo "$kind commit: ", $server->get("/$kind/next"), "\n";
}
echo 'pool: ', $server->get('/pool'), "\n";
echo 'closed: ', $server->get('/extended/begin/closed')->status, "\n";
var_dump($server->stop());
// The log limits these lines per second.
var_dump((bool) preg_match('/a handler has ended in the middle of a transaction of SQLite3, which was begun in .* and is rolled back/', $server->log()));
echo $server->logged('/could not/');
?>
--EXPECT--
own return: 200 0
own throw: 200 0
own exit: 200 0
own slow: 200 0 200
own commit: 200 1
extended return: 200 0
extended throw: 200 0
extended exit: 200 0
extended slow: 200 0 200
extended commit: 200 1
pool: 200 [true,true]
closed: 200
int(0)
bool(true)
