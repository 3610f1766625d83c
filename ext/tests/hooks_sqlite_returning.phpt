--TEST--
Hook::Sqlite: a statement that has written and whose rows are not all read waits for readers when it is closed; where it cannot wait, it does not hold the worker
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
$reads = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 20]);
$reads->exec('CREATE TABLE words (word TEXT)');
$reads->exec("INSERT INTO words VALUES ('a'), ('b'), ('c')");
$writes = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 20]);
$sqlite3 = new SQLite3($file);
$sqlite3->busyTimeout(20_000);
[$goes, $kept, $is_reading] = [false, null, false];
$write = function (string $word) use ($writes) {
    $statement = $writes->query("INSERT INTO words VALUES ('$word 1'), ('$word 2') RETURNING word");
    $statement->fetchColumn();
    return $statement;
};
// Has a lock on the file as long as it has not read all.
$server->get('/read', function () use ($reads, &$goes, &$is_reading) {
    $rows = $reads->query('SELECT word FROM words');
    $rows->fetchColumn();
    for ($goes = false, $is_reading = true; !$goes;) {
        delay(0.002);
    }
    $is_reading = false;
    return Response::json(count($rows->fetchAll()) > 0);
});
$server->get('/reading', function () use (&$is_reading) { return Response::json($is_reading); });
$server->get('/go', function () use (&$goes) { $goes = true; return Response::text('go'); });
$server->get('/count/{word}', function (string $word) use ($reads) {
    return Response::json($reads->query("SELECT COUNT(*) FROM words WHERE word LIKE '$word%'")->fetchColumn());
});
$server->get('/close', function () use ($write, &$is_reading) {
    $write('closed')->closeCursor();
    return Response::json(['reading' => $is_reading]);
});
$server->get('/reset', function () use ($sqlite3, &$is_reading) {
    $statement = $sqlite3->prepare("INSERT INTO words VALUES ('reset 1'), ('reset 2') RETURNING word");
    $statement->execute();
    $statement->reset();
    return Response::json(['reading' => $is_reading]);
});
$server->get('/free', function () use ($write, &$is_reading) {
    $write('freed');
    return Response::json(['reading' => $is_reading]);
});
$server->get('/end', function () use ($write, &$kept, &$is_reading) {
    $kept = $write('ended');
    return Response::json(['reading' => $is_reading]);
});
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
foreach (['close' => 'closed', 'reset' => 'reset', 'free' => 'freed', 'end' => 'ended'] as $target => $word) {
    $reader = $server->connect();
    $reader->start('GET', '/read');
    while ($server->get('/reading')->body !== 'true') {
        usleep(2000);
    }
    $writer = $server->connect();
    $writer->start('GET', "/$target");
    usleep(50_000);
    $began = microtime(true);
    $server->get('/go');
    $took = microtime(true) - $began;
    echo "$target: ", $writer->answer(), ', ', $reader->answer(), ', others ', $took < 5 ? 'went on' : "waited $took s";
    echo ', written ', json_decode($server->get("/count/$word")->body), "\n";
}
var_dump($server->stop());
echo $server->logged('/error|undone/'), "\n";
?>
--EXPECTF--
close: 200 {"reading":false}, 200 true, others went on, written 2
reset: 200 {"reading":false}, 200 true, others went on, written 2
free: 200 {"reading":true}, 200 true, others went on, written 0
end: 200 {"reading":true}, 200 true, others went on, written 0
int(0)
%s warning [worker 0] what a statement of SQLite has written is undone: %s
%s warning [worker 0] what a statement of SQLite has written is undone: %s
