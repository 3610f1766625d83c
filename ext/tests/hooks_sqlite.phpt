--TEST--
Hook::Sqlite: locks and long queries let others go on; one connection serves handlers in turn, transactions whole
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$say = function (callable $call): string {
    try { return json_encode($call()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
};
/** Ends when another task has set $over, which is impossible without the hook. */
$endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE NOT is_over()) SELECT max(x) > 0 FROM c';
$over = false;
$open = function (string $name = ':memory:') use (&$over): PDO {
    $pdo = new PDO("sqlite:$name");
    $pdo->sqliteCreateFunction('is_over', function () use (&$over) { return (int) $over; });
    return $pdo;
};
$server->get('/locks', function () use ($open) {
    foreach (['delete', 'wal'] as $mode) {
        $first = $open("locks-$mode");
        $first->exec("PRAGMA journal_mode=$mode");
        $first->exec('CREATE TABLE t (who)');
        $first->exec('BEGIN IMMEDIATE');
        $tasks = [
            async(function () use ($open, $mode) { $open("locks-$mode")->exec("INSERT INTO t VALUES ('pdo')"); }),
            async(function () use ($mode) { $db = new SQLite3("locks-$mode"); $db->busyTimeout(60000); $db->exec("INSERT INTO t VALUES ('sqlite3')"); }),
        ];
        delay(0.01);
        $first->exec("INSERT INTO t VALUES ('first')");
        $first->exec('COMMIT');
        array_map('Fermata\await', $tasks);
        $who = $first->query('SELECT who FROM t')->fetchAll(PDO::FETCH_COLUMN);
        $others = array_slice($who, 1);
        sort($others);
        echo $mode, ' ', $who[0], ' ', implode(' ', $others), "\n";
    }
    return Response::text('done');
});
$server->get('/process', function () use ($open) {
    // Another process holds the lock until it receives a line.
    $open('process')->exec('CREATE TABLE t (a)');
    $code = '$p = new PDO("sqlite:process"); $p->exec("BEGIN EXCLUSIVE"); echo "locked\n"; fgets(STDIN); $p->exec("COMMIT");';
    $process = proc_open([PHP_BINARY, '-n', ...json_decode(getenv('SQLITE_INI')), '-r', $code], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    fgets($pipes[1]);
    $task = async(fn () => $open('process')->exec('INSERT INTO t VALUES (1)'));
    $read = async(fn () => $open('process')->query('SELECT count(*) FROM t')->fetchColumn());
    delay(0.01);
    fwrite($pipes[0], "now\n");
    $out = json_encode([await($task), await($read) <= 1]);
    proc_close($process);
    return Response::text($out);
});
$server->get('/long', function () use ($open, $endless, &$over) {
    $over = false;
    $tasks = [
        async(fn () => $open()->query($endless)->fetchColumn()),
        async(fn () => $open()->exec("CREATE TABLE t AS $endless")),
        async(function () use ($endless, &$over) { $db = new SQLite3(':memory:'); $db->createFunction('is_over', function () use (&$over) { return (int) $over; }); return $db->querySingle($endless); }),
        async(function () use ($open, $endless) { $pdo = $open(); foreach ($pdo->query("SELECT 0 UNION ALL SELECT * FROM ($endless)") as $row) { $last = $row[0]; } return $last; }),
    ];
    delay(0.01);
    $over = true;
    return Response::text(json_encode(array_map('Fermata\await', $tasks)));
});
$server->get('/ended', function () use ($open, $endless, $say, &$over) {
    $over = false;
    $pdo = $open('ended');
    $pdo->exec('CREATE TABLE t (a)');
    echo $say(fn () => timeout(0.01, fn () => $pdo->query($endless)->fetchColumn())), "\n";
    echo $say(fn () => timeout(0.01, fn () => $pdo->exec("INSERT INTO t $endless"))), "\n";
    $other = $open('ended');
    $other->exec('BEGIN EXCLUSIVE');
    echo $say(fn () => timeout(0.01, fn () => $pdo->exec('INSERT INTO t VALUES (1)'))), "\n";
    $other->exec('ROLLBACK');
    echo $say(fn () => $pdo->query('SELECT count(*) FROM t')->fetchColumn()), "\n";
    return Response::text('done');
});
$server->get('/shared', function () use ($open, $endless, $say, &$over) {
    $over = false;
    $pdo = $open();
    $statement = $pdo->query('SELECT 3 UNION SELECT 4');
    $log = [];
    $a = async(function () use ($pdo, $endless, &$log) { $log[] = 'a ' . $pdo->query($endless)->fetchColumn(); });
    $b = async(function () use ($pdo, &$log) { $log[] = 'b ' . $pdo->query('SELECT 2')->fetchColumn(); });
    $c = async(function () use ($statement, &$log) { foreach ($statement as $row) { $log[] = "c $row[0]"; } });
    delay(0.001);
    // Reading a property of the connection, and freeing a statement, do not count as use.
    $log[] = $pdo->errorCode() . ' ' . json_encode($pdo->inTransaction());
    unset($statement);
    // PHP allows switches in destructors since 8.4, so a query there queues behind the others.
    if (PHP_VERSION_ID >= 80400) { async(function () use (&$over) { delay(0.01); $over = true; }); }
    $destructor = $say(function () use ($pdo) { new class($pdo) { function __construct(public PDO $pdo) {} function __destruct() { $this->pdo->query('SELECT 5'); } }; });
    $over = true;
    array_map('Fermata\await', [$a, $b, $c]);
    echo implode(', ', $log), "\n", PHP_VERSION_ID >= 80400 && $destructor === 'null' ? 'refused or has had its turn' : str_replace('Fermata\Exception\MisuseError: another handler or task is inside a call of this connection to SQLite, and PHP cannot wait here; give each its own', 'refused or has had its turn', $destructor), "\n";
    return Response::text('done');
});
$server->get('/sqlite3', function () use ($endless, &$over) {
    $over = false;
    $db = new SQLite3(':memory:');
    $db->createFunction('is_over', function () use (&$over) { return (int) $over; });
    $first = $db->query('SELECT 1 UNION SELECT 2');
    $second = $db->prepare('SELECT 3');
    $a = async(fn () => $db->querySingle($endless));
    delay(0.001);
    unset($second);
    $b = async(fn () => $first->fetchArray(SQLITE3_NUM));
    $c = async(fn () => $db->exec('CREATE TABLE t (a)'));
    delay(0.001);
    $over = true;
    return Response::text(json_encode([await($a), await($b), await($c), $first->finalize(), $db->close()]));
});
$server->get('/transaction', function () use ($open, $say) {
    $pdo = $open();
    $pdo->exec('CREATE TABLE t (who)');
    $insert = function (string $who, float $seconds, bool $keep) use ($pdo) {
        $pdo->beginTransaction();
        $pdo->exec("INSERT INTO t VALUES ('$who')");
        delay($seconds);
        $keep ? $pdo->commit() : $pdo->rollBack();
    };
    $tasks = [async(fn () => $insert('a', 0.01, false)), async(fn () => $pdo->exec("INSERT INTO t VALUES ('b')")), async(fn () => $insert('c', 0, true))];
    array_map('Fermata\await', $tasks);
    echo implode(' ', $pdo->query('SELECT who FROM t')->fetchAll(PDO::FETCH_COLUMN)), "\n";
    // A task that waits for its own waiter.
    $pdo->beginTransaction();
    echo preg_replace('/ in \S+/', '', $say(fn () => await(async(fn () => $pdo->query('SELECT 1')->fetchColumn())))), "\n";
    // A task that ends inside a transaction: the transaction is rolled back.
    $pdo->rollBack();
    await(async(fn () => $pdo->beginTransaction()));
    echo $say(fn () => await(async(fn () => $pdo->exec("INSERT INTO t VALUES ('d')")))), json_encode($pdo->inTransaction()), "\n";
    return Response::text('done');
});
$server->get('/bound', function () use ($open, $endless, &$over) {
    $over = false;
    $value = str_repeat('v', 100);
    $statement = $open()->prepare("SELECT * FROM ($endless), (SELECT :value)");
    $statement->bindParam('value', $value);
    $task = async(function () use ($statement) { $statement->execute(); return $statement->fetch(PDO::FETCH_NUM)[1]; });
    delay(0.001);
    $value = str_repeat('w', 50);
    $value .= 'x';
    $over = true;
    return Response::text(var_export(await($task) === str_repeat('v', 100), true));
});
$server->get('/sync', function () use ($open) {
    // Other tasks run while data is written to the disk; not each time, since the write may end before.
    $pdo = $open('sync');
    $pdo->exec('CREATE TABLE t (a)');
    for ($i = 0, $during = false; $i < 10000 && !$during; $i++) {
        $ran = false;
        $task = async(function () use (&$ran) { $ran = true; });
        $pdo->exec('INSERT INTO t VALUES (1)');
        $during = $ran;
        await($task);
    }
    return Response::text(var_export($during && $pdo->query('SELECT count(*) FROM t')->fetchColumn() === $i, true));
});
$server->get('/cache', function () use ($open, $endless, $say, &$over) {
    // No wait is allowed inside a shared cache: its locks belong to the thread.
    $name = 'file:shared?mode=memory&cache=shared';
    [$one, $two] = [new PDO("sqlite:$name"), new PDO("sqlite:$name")];
    $one->exec('CREATE TABLE t (a)');
    $one->exec('BEGIN IMMEDIATE');
    echo $say(fn () => all(fn () => $one->exec('INSERT INTO t VALUES (1)'), fn () => $two->exec('INSERT INTO t VALUES (2)'))), "\n";
    $name = 'file:called?mode=memory&cache=shared';
    [$one, $two] = [new PDO("sqlite:$name"), new PDO("sqlite:$name")];
    $one->exec('CREATE TABLE t (a); INSERT INTO t VALUES (1)');
    // Nor in the program's own SQL functions, nor in another connection that these use.
    $one->sqliteCreateFunction('nap', fn () => delay(0.001));
    $own = $open();
    $one->sqliteCreateFunction('ask', function () use ($own, $endless, &$over) { usleep(1); $over = true; return $own->query($endless)->fetchColumn(); });
    $other = async(fn () => $two->query('SELECT count(*) FROM t')->fetchColumn());
    $over = false;
    echo $say(fn () => $one->query('SELECT nap() FROM t')->fetchColumn()), ' ', $one->query('SELECT ask() FROM t')->fetchColumn(), ' ', await($other), "\n";
    return Response::text('done');
});
$server->get('/blob', function () use ($endless, $say, &$over) {
    // BLOB streams do not wait, and are refused while another task is inside the connection or in a transaction.
    $over = false;
    $db = new SQLite3('blob');
    $db->createFunction('is_over', function () use (&$over) { return (int) $over; });
    $db->exec("CREATE TABLE t (b); INSERT INTO t VALUES (x'616263')");
    [$blob, $second, $third] = array_map(fn () => $db->openBlob('t', 'b', 1), [1, 2, 3]);
    echo fread($blob, 1), "\n";
    rewind($blob);
    $task = async(fn () => $db->querySingle($endless));
    delay(0.001);
    echo $say(fn () => fread($blob, 2)), "\n", $say(fn () => fclose($second)), "\n";
    $over = true;
    await($task);
    $task = async(function () use ($db) { $db->exec('BEGIN'); delay(0.005); $db->exec('COMMIT'); });
    delay(0.001);
    echo $say(fn () => fread($third, 2)), "\n";
    await($task);
    array_map('fclose', [$blob, $third]);
    $blob = $db->openBlob('t', 'b', 1, 'main', SQLITE3_OPEN_READWRITE);
    fwrite($blob, 'x');
    fclose($blob);
    $copy = new SQLite3(':memory:');
    return Response::text(json_encode([$db->backup($copy), $copy->querySingle('SELECT b FROM t'), $db->close()]));
});
$server->get('/closed', function () use ($say) {
    // A task that queues for a connection that is closed and reopened at the same address has nothing to release.
    $db = new SQLite3('closed');
    $db->exec('CREATE TABLE t (a); BEGIN');
    $tasks = array_map(fn () => async(fn () => $say(fn () => @$db->exec('INSERT INTO t VALUES (1)'))), [1, 2]);
    delay(0.001);
    $db->close();
    $other = new SQLite3('closed');
    $other->exec('BEGIN');
    $third = async(fn () => $say(fn () => $other->exec('INSERT INTO t VALUES (3)')));
    echo implode("\n", array_map('Fermata\await', $tasks)), "\n", json_encode($other->exec('INSERT INTO t VALUES (2)')), json_encode($third->isDone());
    $other->exec('ROLLBACK');
    echo ' ', await($third), ' ', $other->querySingle('SELECT group_concat(a) FROM t'), "\n";
    return Response::text('done');
});
$kept = [];
$server->get('/fiber', function () use (&$kept) {
    // The program's Fibers are suspended inside SQLite, and resume after the end of their handler, or never.
    foreach ([0, 1] as $i) {
        $pdo = new PDO('sqlite::memory:');
        $pdo->sqliteCreateFunction('pause', fn () => Fiber::suspend('paused'));
        $kept[$i] = new Fiber(fn () => $pdo->query('SELECT pause()')->fetchColumn());
        $paused[] = $kept[$i]->start();
    }
    return Response::text(json_encode([$paused, (new PDO('sqlite::memory:'))->query('SELECT 1')->fetchColumn()]));
});
$server->get('/suspended', function () use (&$kept, &$pdo, $say) {
    // A call to a connection with such a Fiber inside is refused, in whichever handler it was started.
    $kept[2] ??= (function () use (&$pdo) {
        $pdo = new PDO('sqlite::memory:');
        $pdo->sqliteCreateFunction('pause', fn () => Fiber::suspend());
        $fiber = new Fiber(fn () => $pdo->query('SELECT pause()')->fetchColumn());
        $fiber->start();
        return $fiber;
    })();
    delay(0.001);
    return Response::text($say(fn () => $pdo->query('SELECT 1')->fetchColumn()));
});
$server->get('/resumed', function () use (&$kept) {
    $kept[0]->resume(7);
    $got = $kept[0]->getReturn();
    $kept = [];
    gc_collect_cycles();
    return Response::text(json_encode([$got, (new PDO('sqlite::memory:'))->query('SELECT 2')->fetchColumn()]));
});
$server->get('/callbacks', function () {
    // Functions, collations and authorizers are called on PHP's stack, and may wait themselves.
    $pdo = new PDO('sqlite::memory:');
    $pdo->sqliteCreateFunction('nap', function ($x) { delay(0.001); return $x * 2; });
    $pdo->sqliteCreateAggregate('plus', fn ($c, $r, $x) => $c + $x, fn ($c) => $c);
    $pdo->sqliteCreateCollation('backwards', fn ($a, $b) => strcmp($b, $a));
    $db = new SQLite3(':memory:');
    $db->setAuthorizer(fn (int $action) => $action === SQLite3::SELECT ? SQLite3::DENY : SQLite3::OK);
    return Response::text(json_encode([
        all(fn () => $pdo->query('SELECT nap(4)')->fetchColumn(), fn () => $pdo->query('SELECT nap(5)')->fetchColumn()),
        $pdo->query('SELECT plus(x) FROM (SELECT 1 AS x UNION SELECT 2)')->fetchColumn(),
        $pdo->query("SELECT x FROM (SELECT 'a' AS x UNION SELECT 'b') ORDER BY x COLLATE backwards")->fetchAll(PDO::FETCH_COLUMN),
        @$db->query('SELECT 1'),
    ]));
});
PHP, ini: $ini = ['-derror_reporting=24575', ...array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")))],
    environment: ['SQLITE_INI' => json_encode(array_values($ini))]);
foreach (['/locks', '/process', '/long', '/ended', '/shared', '/sqlite3', '/transaction', '/bound', '/sync', '/cache', '/blob', '/closed', '/fiber', '/suspended', '/suspended', '/resumed', '/callbacks'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error|still/');
?>
--EXPECTF--
200 done
200 [1,true]
200 [1,0,1,1]
200 done
200 done
200 [1,[1],true,true,true]
200 done
200 true
200 true
200 done
200 [true,"xbc",true]
200 done
200 [["paused","paused"],1]
200 1
200 Fermata\Exception\MisuseError: a Fiber that was begun by a handler which has ended is suspended inside a call of this connection; resume it first, or give it a connection of its own
200 [7,2]
200 [[8,10],3,["b","a"],false]
int(0)
delete first pdo sqlite3
wal first pdo sqlite3
Fermata\Exception\TimeoutException: the time given to timeout() is over
Fermata\Exception\TimeoutException: the time given to timeout() is over
Fermata\Exception\TimeoutException: the time given to timeout() is over
0
00000 false, a 1, b 2, c 3, c 4
refused or has had its turn
b c
Fermata\Exception\MisuseError: deadlock: this would wait for what waits for it
1false
PDOException: SQLSTATE[HY000]: General error: 6 database table is locked
Fermata\Exception\MisuseError: PHP cannot wait inside a query of a SQLite database with cache=shared: others of this thread would block for ever 1 1
a
Fermata\Exception\MisuseError: another handler or task is inside a call of this connection to SQLite, or has begun a transaction of it, and PHP cannot wait here; give each its own
true
Fermata\Exception\MisuseError: another handler or task is inside a call of this connection to SQLite, or has begun a transaction of it, and PHP cannot wait here; give each its own
Error: The SQLite3 object has not been correctly initialised or is already closed
Error: The SQLite3 object has not been correctly initialised or is already closed
truefalse true 3%A
