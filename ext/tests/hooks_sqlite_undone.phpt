--TEST--
Hook::Sqlite: a handler is told when what its statement has written could not be committed
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
$connect = fn (int $mode = PDO::ERRMODE_EXCEPTION) => new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 0, PDO::ATTR_ERRMODE => $mode]);
$connect()->exec("CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('a'), ('b')");
$insert = "INSERT INTO words VALUES ('c'), ('d') RETURNING word";
$write = function (PDO $pdo) use ($insert) {
    $statement = $pdo->query($insert);
    $statement->fetchColumn();
    return $statement;
};
$ways = [
    'closeCursor' => fn (PDO $pdo) => $write($pdo)->closeCursor(),
    'execute' => fn (PDO $pdo) => $write($pdo)->execute(),
    'fetchColumn' => fn (PDO $pdo) => $pdo->query($insert)->fetchColumn(),
    'fetchAll' => fn (PDO $pdo) => $pdo->query($insert)->fetchAll(PDO::FETCH_COLUMN),
    'variable' => function (PDO $pdo) use ($write) { $statement = $write($pdo); return 'done'; },
    'function' => function (PDO $pdo) use ($write) {
        $all = [$write($pdo)];
        array_splice($all, 0, 1);
        return $pdo->query('SELECT 1')->fetchColumn();
    },
];
$server->get('/pdo/{way}/{mode}', function (string $way, int $mode) use ($connect, $ways) {
    $rows = $connect()->query('SELECT word FROM words');
    $rows->fetchColumn();
    $pdo = $connect($mode);
    set_error_handler(function ($level, $message) use (&$said) { $said[] = "warning: $message"; return true; });
    try {
        $said[] = $ways[$way]($pdo);
    } catch (PDOException $e) {
        $said[] = [$e::class, $e->getCode(), $e->errorInfo, $e->getMessage()];
        $said[] = $e->getPrevious()?->getMessage();
    }
    $rows = null;
    restore_error_handler();
    $said[] = $pdo->query('SELECT COUNT(*) FROM words')->fetchColumn();
    return Response::json($said);
});
$ways3 = [
    'query' => fn (SQLite3 $db, PDOStatement $rows) => $rows->execute() && $rows->fetchColumn() && $db->query($insert),
    'execute' => fn (SQLite3 $db, PDOStatement $rows) => $rows->execute() && $rows->fetchColumn() && $db->prepare($insert)->execute(),
    // PHP itself reports this case.
    'reset' => function (SQLite3 $db, PDOStatement $rows) use ($insert) {
        $statement = $db->prepare($insert);
        $result = $statement->execute();
        $result->fetchArray();
        $rows->execute();
        $rows->fetchColumn();
        return $statement->reset();
    },
];
$server->get('/sqlite3/{way}/{throws}', function (string $way, int $throws) use ($file, $connect, $ways3) {
    $rows = $connect()->prepare('SELECT word FROM words');
    $db = new SQLite3($file);
    @$db->enableExceptions((bool) $throws);
    set_error_handler(function ($level, $message) use (&$said) { if (error_reporting() & $level) { $said[] = "warning: $message"; } return true; });
    try {
        $said[] = (bool) $ways3[$way]($db, $rows);
    } catch (Exception $e) {
        $said[] = [$e::class === (class_exists('SQLite3Exception', false) ? 'SQLite3Exception' : 'Exception'), $e->getMessage()];
    }
    restore_error_handler();
    return Response::json($said);
});
// The local variables are freed when the handler returns.
$shared = $connect();
$server->get('/return', function () use ($connect, $write, $shared) {
    $statement = $write($shared);
    $rows = $connect()->query('SELECT word FROM words');
    $rows->fetchColumn();
    return Response::text('written');
});
$state = '';
$to = function (string $next) use (&$state) { $state = $next; };
$until = function (string $wanted) use (&$state) { while ($state !== $wanted) { delay(0.002); } };
$shared->sqliteCreateFunction('until', function (string $wanted) use ($until, $to) { $to('inside'); $until($wanted); return 1; });
// This query runs in the connection while another handler frees a statement, which ends after the query.
$server->get('/inside', fn () => Response::json($shared->query("SELECT until('freed')")->fetchColumn()));
$server->get('/freed/{told}', function (string $told) use ($connect, $write, $shared, $until, $to) {
    $statement = $write($shared);
    $rows = $connect()->query('SELECT word FROM words');
    $rows->fetchColumn();
    $to('written');
    $until('inside');
    $statement = null;
    $to('freed');
    for ($turns = 0; $turns < 20; $turns++) {
        delay(0.002);
    }
    return Response::json($told === 'told' ? $shared->query('SELECT 1')->fetchColumn() : 0);
});
$server->get('/state', function () use (&$state) { return Response::text($state); });
$server->get('/next', fn () => Response::json($shared->query('SELECT COUNT(*) FROM words')->fetchColumn()));
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
// fetchAll() of PHP 8.5 reports the error itself and returns no rows.
foreach (['closeCursor', 'execute', 'fetchColumn', 'fetchAll', 'variable', 'function'] as $way) {
    foreach (['silent' => PDO::ERRMODE_SILENT, 'warning' => PDO::ERRMODE_WARNING, 'throws' => PDO::ERRMODE_EXCEPTION] as $name => $mode) {
        echo "$way, $name: ", $server->get("/pdo/$way/$mode"), "\n";
    }
}
foreach (['query', 'execute', 'reset'] as $way) {
    foreach (['warning', 'throws'] as $throws => $name) {
        echo "SQLite3 $way, $name: ", $server->get("/sqlite3/$way/$throws"), "\n";
    }
}
echo 'return: ', $server->get('/return')->status, ', next: ', $server->get('/next'), "\n";
foreach (['told', 'left'] as $told) {
    [$freed, $inside] = [$server->connect(), $server->connect()];
    $freed->start('GET', "/freed/$told");
    for ($deadline = microtime(true) + WAIT_S; $server->get('/state')->body !== 'written' && microtime(true) < $deadline; usleep(2000)) {
    }
    $inside->start('GET', '/inside');
    echo "$told: ", $inside->answer(), ', ', $freed->answer()->status;
    // The next handler on the same fiber gets no error.
    echo ', next: ', $server->get('/next'), ' ', $server->get('/next'), "\n";
}
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/error|undone/')), "\n";
?>
--EXPECTF--
closeCursor, silent: 200 [true,2]
closeCursor, warning: 200 ["warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it",true,2]
closeCursor, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it"],null,2]
execute, silent: 200 [true,2]
execute, warning: 200 ["warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it","warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it",true,2]
execute, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it"],null,2]
fetchColumn, silent: 200 ["c",2]
fetchColumn, warning: 200 ["warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it","c",2]
fetchColumn, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it"],null,2]
fetchAll, silent: 200 [[%r("c","d")?%r],2]
fetchAll, warning: 200 ["warning: %r(PDOStatement::fetchAll\(\): )?%rSQLSTATE[HY000]: General error: 5 database is locked%r(: what a statement has written is undone, since SQLite could not commit it",\["c","d"\]|",\[\])%r,2]
fetchAll, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked%r(: what a statement has written is undone, since SQLite could not commit it)?%r"],null,2]
variable, silent: 200 ["done",2]
variable, warning: 200 ["warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it","done",2]
variable, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it"],null,2]
function, silent: 200 [1,2]
function, warning: 200 ["warning: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it",1,2]
function, throws: 200 [["PDOException","HY000",["HY000",5,"database is locked"],"SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it"],null,2]
SQLite3 query, warning: 200 ["warning: SQLite3: database is locked: what a statement has written is undone, since SQLite could not commit it",true]
SQLite3 query, throws: 200 [[true,"database is locked: what a statement has written is undone, since SQLite could not commit it"]]
SQLite3 execute, warning: 200 ["warning: SQLite3: database is locked: what a statement has written is undone, since SQLite could not commit it",true]
SQLite3 execute, throws: 200 [[true,"database is locked: what a statement has written is undone, since SQLite could not commit it"]]
SQLite3 reset, warning: 200 ["warning: SQLite3Stmt::reset(): Unable to reset statement: database is locked",false]
SQLite3 reset, throws: 200 [[true,"Unable to reset statement: database is locked"]]
return: 500, next: 200 6
told: 200 1, 500, next: 200 6 200 6
left: 200 1, 200, next: 200 6 200 6
int(0)
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
error   [worker 0] PDOException: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it in server.php:94
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
error   [worker 0] PDOException: SQLSTATE[HY000]: General error: 5 database is locked: what a statement has written is undone, since SQLite could not commit it in server.php:90
warning [worker 0] what a statement of SQLite has written is undone (database is locked): its rows were not all read, and it could not be committed when it was closed or freed; read the rows of INSERT, UPDATE and DELETE … RETURNING to their end
