--TEST--
Hook::Sqlite: a write that was refused since another connection writes keeps no lock of its connection
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$file = __DIR__ . '/database';
$pdo = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 2]);
$pdo->exec('CREATE TABLE words (word TEXT)');
$pdo->exec("INSERT INTO words VALUES ('a'), ('b'), ('c')");
$sqlite3 = new SQLite3($file);
$sqlite3->busyTimeout(2_000);
$sqlite3->enableExceptions(true);
$insert = 'INSERT INTO words VALUES (?) RETURNING word';
[$prepared, $prepared3] = [$pdo->prepare($insert), $sqlite3->prepare($insert)];
$write = [
    // PDO keeps the statement that it could not execute until the next query.
    'query' => fn () => $pdo->query("INSERT INTO words VALUES ('query') RETURNING word")->fetchColumn(),
    'execute' => function () use ($prepared) { $prepared->execute(['execute']); return $prepared->fetchAll(PDO::FETCH_COLUMN)[0]; },
    'sqlite3' => function () use ($prepared3) {
        $prepared3->reset();
        $prepared3->bindValue(1, 'sqlite3');
        $word = $prepared3->execute()->fetchArray()[0];
        $prepared3->reset();
        return $word;
    },
];
$other = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 2]);
$goes = ['reads' => false, 'commits' => false];
$state = [];
$server->get('/read/{by}', function (string $by) use ($pdo, $sqlite3, &$goes, &$state) {
    $rows = $by === 'sqlite3' ? $sqlite3->query('SELECT word FROM words') : $pdo->query('SELECT word FROM words');
    $by === 'sqlite3' ? $rows->fetchArray() : $rows->fetchColumn();
    for ($state['reads'] = true; !$goes['reads'];) {
        delay(0.002);
    }
    return Response::text('read');
});
$server->get('/other', function () use ($other, &$goes, &$state) {
    $other->exec('BEGIN IMMEDIATE');
    $other->exec("INSERT INTO words VALUES ('other')");
    for ($state['writes'] = true; !$goes['commits'];) {
        delay(0.002);
    }
    $other->exec('COMMIT');
    return Response::text('committed');
});
$server->get('/write/{by}', fn (string $by) => Response::text($write[$by]()));
$server->get('/go/{what}', function (string $what) use (&$goes) { $goes[$what] = true; return Response::text('go'); });
$server->get('/again', function () use (&$goes, &$state) { [$goes, $state] = [['reads' => false, 'commits' => false], []]; return Response::text(''); });
$server->get('/state', function () use (&$state) { return Response::json(count($state)); });
$server->get('/words', fn () => Response::json($other->query("SELECT word, COUNT(*) FROM words GROUP BY word")->fetchAll(PDO::FETCH_KEY_PAIR)));
PHP;
$folder = ini_get('extension_dir');
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file("$folder/$name.so")));
$server = new TestServer($program, ini: $ini);
foreach (['query', 'execute', 'sqlite3'] as $by) {
    $server->get('/again');
    [$reader, $other] = [$server->connect(), $server->connect()];
    $reader->start('GET', "/read/$by");
    $other->start('GET', '/other');
    for ($deadline = microtime(true) + WAIT_S; (string) $server->get('/state') !== '200 2' && microtime(true) < $deadline; usleep(2000)) {
    }
    echo "$by: ", $server->get("/write/$by")->status;
    $server->get('/go/reads');
    echo ' ', $reader->answer();
    $server->get('/go/commits');
    echo ' ', $other->answer(), ' ', $server->get("/write/$by"), "\n";
}
// SQLite3 executes its statement again to read the rows.
echo $server->get('/words'), "\n";
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/warning .*SQLite/')), "\n";
?>
--EXPECT--
query: 500 200 read 200 committed 200 query
execute: 500 200 read 200 committed 200 execute
sqlite3: 500 200 read 200 committed 200 sqlite3
200 {"a":1,"b":1,"c":1,"execute":1,"other":3,"query":1,"sqlite3":2}
int(0)
warning [worker 0] a write of SQLite is refused while another connection writes: another handler has rows to read of the same connection; call fetchAll() or closeCursor(), or use a Pool
warning [worker 0] a write of SQLite is refused while another connection writes: another handler has rows to read of the same connection; call fetchAll() or closeCursor(), or use a Pool
warning [worker 0] a write of SQLite is refused while another connection writes: another handler has rows to read of the same connection; call fetchAll() or closeCursor(), or use a Pool
