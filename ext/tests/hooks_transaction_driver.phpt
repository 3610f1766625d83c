--TEST--
Hooks: a transaction in a driver of PDO that has no hook is rolled back with the handler that has left it open
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

// SQLite without its hook represents such a driver.
$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sleep);
$file = __DIR__ . '/database';
$db = new PDO("sqlite:$file");
$db->exec('CREATE TABLE words (word TEXT)');
$begins = ['method' => fn () => $db->beginTransaction(), 'text' => fn () => $db->exec('BEGIN')];
$begun = 0;
$server->get('/{begin}/{how}', function (string $begin, string $how) use ($db, $begins, &$begun) {
    $begins[$begin]();
    $db->exec("INSERT INTO words VALUES ('$begin $how')");
    $begun++;
    match ($how) {
        'return' => null,
        'throw' => throw new Exception('thrown'),
        'exit' => exit,
        'timeout' => timeout(0.01, fn () => delay(600)),
        'task' => await(async(fn () => null)),
        'slow' => delay(0.1),
        'commit' => $db->exec('COMMIT'),
    };
    return Response::text('');
});
$server->get('/next', function () use ($db) {
    $began = $db->beginTransaction();
    $count = $db->query('SELECT COUNT(*) FROM words')->fetchColumn();
    return Response::json([$began, (int) $count, $db->rollBack()]);
});
$server->get('/begun', function () use (&$begun) { return Response::json($begun); });
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
$begun = 0;
foreach (['method', 'text'] as $begin) {
    foreach (['return', 'throw', 'exit', 'timeout', 'task'] as $how) {
        $server->get("/$begin/$how");
        $begun++;
        echo "$begin $how: ", $server->get('/next'), "\n";
    }
    // Other handlers queue until the transaction is over.
    $slow = $server->connect();
    $slow->start('GET', "/$begin/slow");
    $begun++;
    for ($deadline = microtime(true) + WAIT_S; (int) $server->get("/begun")->body < $begun && microtime(true) < $deadline;) {
        usleep(1000);
    }
    echo "$begin slow: ", $server->get('/next'), ' ', $slow->answer()->status, "\n";
}
$server->get('/text/commit');
echo 'commit: ', $server->get('/next'), "\n";
var_dump($server->stop());
// The log limits these lines per second.
var_dump((bool) preg_match('/a handler has ended in the middle of a transaction of a driver of PDO, which was begun in .* and is rolled back/', $server->log()));
echo $server->logged('/could not/');
?>
--EXPECT--
method return: 200 [true,0,true]
method throw: 200 [true,0,true]
method exit: 200 [true,0,true]
method timeout: 200 [true,0,true]
method task: 200 [true,0,true]
method slow: 200 [true,0,true] 200
text return: 200 [true,0,true]
text throw: 200 [true,0,true]
text exit: 200 [true,0,true]
text timeout: 200 [true,0,true]
text task: 200 [true,0,true]
text slow: 200 [true,0,true] 200
commit: 200 [true,1,true]
int(0)
bool(true)
