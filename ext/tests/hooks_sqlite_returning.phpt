--TEST--
Hook::Sqlite: a statement that has written and whose rows are not all read waits for readers when it is closed or freed; where PHP cannot wait, the handler's next call does, or a task
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
// Holds a lock on the file until all rows are read.
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
// SQLite3 executes the statement once more to read its rows.
$server->get('/results', function () use ($sqlite3, &$is_reading) {
    $sqlite3->query("INSERT INTO words VALUES ('results 1'), ('results 2') RETURNING word")->fetchArray();
    return Response::json(['reading' => $is_reading]);
});
$server->get('/free', function () use ($write, &$is_reading) {
    $write('freed');
    return Response::json(['reading' => $is_reading]);
});
$server->get('/return', function () use ($write, &$is_reading) {
    $statement = $write('returned');
    return Response::json(['reading' => $is_reading]);
});
$throw = function (string $word) use ($write) {
    $statement = $write($word);
    throw new Exception('thrown');
};
$server->get('/throw', function () use ($throw) { $throw('thrown'); });
$server->get('/exit', function () use ($write) {
    $statement = $write('exited');
    exit;
});
// The next call ends the statement before it counts its own rows.
$server->get('/catch', function () use ($throw, $writes, &$is_reading) {
    try {
        $throw('caught');
    } catch (Exception) {
    }
    $count = $writes->exec("UPDATE words SET word = word WHERE word = 'caught 1'");
    return Response::json(['reading' => $is_reading, 'changed' => $count]);
});
// A connection that is freed before the task that ends its statement.
$server->get('/close-all', function () use ($file) {
    $own = new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 20]);
    $statement = $own->query("INSERT INTO words VALUES ('gone 1'), ('gone 2') RETURNING word");
    $statement->fetchColumn();
    throw new Exception('thrown');
});
// The statement is in an array that an internal function of PHP is processing.
$server->get('/function', function () use ($write, &$is_reading) {
    $all = [$write('function')];
    array_splice($all, 0, 1);
    return Response::json(['reading' => $is_reading]);
});
$server->get('/destructor', function () use ($write, &$is_reading) {
    $object = new class ($write('destructed')) {
        public function __construct(public $statement) {}
        public function __destruct() { $this->statement = null; }
    };
    $object = null;
    return Response::json(['reading' => $is_reading]);
});
$server->get('/end', function () use ($write, &$kept, &$is_reading) {
    $kept = $write('ended');
    return Response::json(['reading' => $is_reading]);
});
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
$words = ['close' => 'closed', 'reset' => 'reset', 'results' => 'results', 'free' => 'freed', 'return' => 'returned', 'throw' => 'thrown', 'exit' => 'exited',
    'catch' => 'caught', 'close-all' => 'gone', 'function' => 'function', 'destructor' => 'destructed', 'end' => 'ended'];
foreach ($words as $target => $word) {
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
    // For the other targets the body does not show whether the freed statement had to wait.
    $answer = $writer->answer();
    echo "$target: ", in_array($target, ['close', 'reset', 'results', 'free', 'catch']) ? $answer : $answer->status, ', ', $reader->answer();
    echo ', others ', $took < 5 ? 'went on' : "waited $took s";
    // A task may not have written the row yet.
    for ($deadline = microtime(true) + WAIT_S; ($count = json_decode($server->get("/count/$word")->body)) < 2 && microtime(true) < $deadline;) {
        usleep(2000);
    }
    echo ", written $count\n";
}
var_dump($server->stop());
echo $server->logged('/error|undone/'), "\n";
?>
--EXPECTF--
close: 200 {"reading":false}, 200 true, others went on, written 2
reset: 200 {"reading":false}, 200 true, others went on, written 2
results: 200 {"reading":false}, 200 true, others went on, written 4
free: 200 {"reading":false}, 200 true, others went on, written 2
return: 200, 200 true, others went on, written 2
throw: 500, 200 true, others went on, written 2
exit: 500, 200 true, others went on, written 2
catch: 200 {"reading":false,"changed":1}, 200 true, others went on, written 2
close-all: 500, 200 true, others went on, written 2
function: 200, 200 true, others went on, written 2
destructor: 200, 200 true, others went on, written 2
end: 200, 200 true, others went on, written 2
int(0)
%s error   [worker 0] Exception: thrown in %s
%s error   [worker 0] exit() called in handler; return a Response to end a request in %s
%s error   [worker 0] Exception: thrown in %s
