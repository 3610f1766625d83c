--TEST--
Hook::Sqlite: rows that a handler has not read end with it, and no other handler gets them
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
$sql = "SELECT :who || ' ' || value AS row FROM (SELECT 1 AS value UNION SELECT 2 UNION SELECT 3)";
$open = ['pdo' => fn () => new PDO('sqlite::memory:'), 'sqlite3' => fn () => new SQLite3(':memory:')];
[$shared, $arrived, $kept] = [null, 0, []];
$next = fn ($rows) => $rows instanceof PDOStatement ? $rows->fetchColumn() : ($rows->fetchArray(SQLITE3_NUM)[0] ?? false);
$all = function ($rows) use ($next) {
    for ($found = []; ($row = $next($rows)) !== false;) {
        $found[] = $row;
    }
    return $found;
};
foreach ($open as $kind => $new) {
    $database = $new();
    $prepared = $database->prepare($sql);
    $execute = function (string $who) use ($prepared) {
        if ($prepared instanceof SQLite3Stmt) {
            $prepared->bindValue(':who', $who);
            return $prepared->execute();
        }
        $prepared->execute(['who' => $who]);
        return $prepared;
    };
    // Reads this number of rows of a statement, or of a query.
    $server->get("/$kind/execute/{who}/{rows}", function (string $who, int $rows) use ($execute, $next, &$shared) {
        $shared = $execute($who);
        return Response::json(array_map(fn () => $next($shared), array_fill(0, $rows, null)));
    });
    $server->get("/$kind/query/{who}/{rows}", function (string $who, int $rows) use ($database, $sql, $next, &$shared) {
        $shared = $database->query(strtr($sql, [':who' => "'$who'"]));
        return Response::json(array_map(fn () => $next($shared), array_fill(0, $rows, null)));
    });
    // While another handler ends.
    $server->get("/$kind/wait/{who}", function (string $who) use ($database, $sql, $next, $all, &$arrived) {
        $rows = $database->query(strtr($sql, [':who' => "'$who'"]));
        $found = [$next($rows)];
        $until = ++$arrived + 1;
        while ($arrived < $until) {
            delay(0.001);
        }
        return Response::json([...$found, ...$all($rows)]);
    });
    // The body is read after the handler, and in several turns.
    $server->get("/$kind/stream/{who}", function (string $who) use ($database, $sql, $next) {
        $rows = $database->query(strtr($sql, [':who' => "'$who'"]));
        $first = $next($rows);
        return Response::stream((function () use ($first, $rows, $next) {
            for ($row = $first; $row !== false; $row = $next($rows)) {
                yield "$row,";
                delay(0.001);
            }
        })(), length: 24);
    });
    $server->get("/$kind/task/{who}", function (string $who) use ($execute, $next, &$shared) {
        return Response::json(async(function () use ($execute, $who, $next, &$shared) {
            $shared = $execute($who);
            return $next($shared);
        })->await());
    });
}
// The handler continues to read a statement that a task has executed.
$server->get('/task-of-mine/{kind}', function (string $kind) use ($open, $sql, $next, $all, &$shared) {
    $database = $open[$kind]();
    [$first, $shared] = async(function () use ($database, $sql, $next) {
        $rows = $database->query(strtr($sql, [':who' => "'mine'"]));
        return [$next($rows), $rows];
    })->await();
    return Response::json([$first, $next($shared)]);
});
// A function called by SQLite frees a statement whose handler has ended meanwhile.
// A strong reference in the handler would keep the server, and memcheck would report it at the end.
$weak = WeakReference::create($server);
$server->get('/freed/{kind}', function (string $kind) use ($weak, $open, $sql, $next, &$kept) {
    $kept = ['database' => $open[$kind](), 'state' => 'read'];
    $kept['rows'] = $kept['database']->query(strtr($sql, [':who' => "'alice'"]));
    $first = $next($kept['rows']);
    while ($kept['state'] !== 'inside') {
        delay(0.001);
    }
    $weak->get()->defer(function () use (&$kept) { $kept['state'] = 'ended'; });
    return Response::json($first);
});
$server->get('/free/{kind}', function (string $kind) use (&$kept, $next) {
    while (!isset($kept['state'])) {
        delay(0.001);
    }
    // SQLite3 executes the statement twice.
    $free = function () use (&$kept) {
        $kept['state'] = $kept['state'] === 'ended' ? 'ended' : 'inside';
        while ($kept['state'] !== 'ended') {
            delay(0.001);
        }
        unset($kept['rows']);
        return 'freed';
    };
    $database = $kept['database'];
    $database instanceof PDO ? $database->sqliteCreateFunction('free', $free) : $database->createFunction('free', $free);
    return Response::json($next($database->query('SELECT free()')));
});
$server->get('/forget', function () use (&$kept) { return Response::json($kept = []); });
$server->get('/rest', function () use ($all, &$shared) { return Response::json($all($shared)); });
$server->get('/foreach', function () use (&$shared) { return Response::json(iterator_to_array($shared)); });
$server->get('/arrived', function () use (&$arrived) { return Response::json($arrived); });
$server->get('/arrive', function () use (&$arrived) { return Response::json(++$arrived); });
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
foreach (['pdo', 'sqlite3'] as $kind) {
    foreach (['execute', 'query'] as $how) {
        // Three rows exist; the fourth read returns none.
        foreach ([0, 1, 2, 3, 4] as $rows) {
            echo "$kind $how: ", $server->get("/$kind/$how/alice/$rows"), ', then ', $server->get('/rest'), ' ', $server->get('/rest'), "\n";
        }
    }
    echo "$kind, executed again: ", $server->get("/$kind/execute/alice/1"), ' ', $server->get("/$kind/execute/bob/4"), ' ',
        $server->get("/$kind/execute/carol/4"), "\n";
    echo "$kind, a task: ", $server->get("/$kind/task/alice"), ', then ', $server->get('/rest'), "\n";
    echo "$kind, streamed: ", $server->get("/$kind/stream/alice"), "\n";
    $before = (int) $server->get('/arrived')->body;
    $client = $server->connect();
    $client->start('GET', "/$kind/wait/alice");
    $deadline = microtime(true) + WAIT_S;
    while ((int) $server->get('/arrived')->body === $before && microtime(true) < $deadline) {
        usleep(1000);
    }
    echo "$kind, beside another: ", $server->get("/$kind/query/bob/1"), ' ', $server->get('/rest'), ' ';
    $server->get('/arrive');
    echo $client->answer(), "\n";
}
foreach (['pdo', 'sqlite3'] as $kind) {
    echo "$kind, a task of mine: ", $server->get("/task-of-mine/$kind"), ', then ', $server->get('/rest'), "\n";
    ($client = $server->connect())->start('GET', "/freed/$kind");
    echo "$kind, freed inside: ", $server->get("/free/$kind"), ' ', $client->answer(), "\n";
    $server->get('/forget');
}
echo 'foreach: ', $server->get('/pdo/query/alice/1'), ' ', $server->get('/foreach'), "\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECT--
pdo execute: 200 [], then 200 [] 200 []
pdo execute: 200 ["alice 1"], then 200 [] 200 []
pdo execute: 200 ["alice 1","alice 2"], then 200 [] 200 []
pdo execute: 200 ["alice 1","alice 2","alice 3"], then 200 [] 200 []
pdo execute: 200 ["alice 1","alice 2","alice 3",false], then 200 [] 200 []
pdo query: 200 [], then 200 [] 200 []
pdo query: 200 ["alice 1"], then 200 [] 200 []
pdo query: 200 ["alice 1","alice 2"], then 200 [] 200 []
pdo query: 200 ["alice 1","alice 2","alice 3"], then 200 [] 200 []
pdo query: 200 ["alice 1","alice 2","alice 3",false], then 200 [] 200 []
pdo, executed again: 200 ["alice 1"] 200 ["bob 1","bob 2","bob 3",false] 200 ["carol 1","carol 2","carol 3",false]
pdo, a task: 200 "alice 1", then 200 []
pdo, streamed: 200 alice 1,alice 2,alice 3,
pdo, beside another: 200 ["bob 1"] 200 [] 200 ["alice 1","alice 2","alice 3"]
sqlite3 execute: 200 [], then 200 [] 200 []
sqlite3 execute: 200 ["alice 1"], then 200 [] 200 []
sqlite3 execute: 200 ["alice 1","alice 2"], then 200 [] 200 []
sqlite3 execute: 200 ["alice 1","alice 2","alice 3"], then 200 [] 200 []
sqlite3 execute: 200 ["alice 1","alice 2","alice 3",false], then 200 [] 200 []
sqlite3 query: 200 [], then 200 [] 200 []
sqlite3 query: 200 ["alice 1"], then 200 [] 200 []
sqlite3 query: 200 ["alice 1","alice 2"], then 200 [] 200 []
sqlite3 query: 200 ["alice 1","alice 2","alice 3"], then 200 [] 200 []
sqlite3 query: 200 ["alice 1","alice 2","alice 3",false], then 200 [] 200 []
sqlite3, executed again: 200 ["alice 1"] 200 ["bob 1","bob 2","bob 3",false] 200 ["carol 1","carol 2","carol 3",false]
sqlite3, a task: 200 "alice 1", then 200 []
sqlite3, streamed: 200 alice 1,alice 2,alice 3,
sqlite3, beside another: 200 ["bob 1"] 200 [] 200 ["alice 1","alice 2","alice 3"]
pdo, a task of mine: 200 ["mine 1","mine 2"], then 200 []
pdo, freed inside: 200 "freed" 200 "alice 1"
sqlite3, a task of mine: 200 ["mine 1","mine 2"], then 200 []
sqlite3, freed inside: 200 "freed" 200 "alice 1"
foreach: 200 ["alice 1"] 200 []
int(0)
