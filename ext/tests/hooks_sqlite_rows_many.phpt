--TEST--
Hook::Sqlite: the end of a handler with thousands of unread statements takes a time that grows with their number alone
--EXTENSIONS--
fermata
pdo
pdo_sqlite
sqlite3
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip it compares times, for which memcheck takes minutes');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$rows = 'SELECT 1 UNION SELECT 2 UNION SELECT 3';
$pdo = new PDO('sqlite::memory:');
$sqlite3 = new SQLite3(':memory:');
$make = [
    'query' => fn () => $pdo->query($rows),
    'execute' => function () use ($pdo, $rows) { $one = $pdo->prepare($rows); $one->execute(); $one->fetch(); return $one; },
    'sqlite3' => function () use ($sqlite3, $rows) { $one = $sqlite3->query($rows); $one->fetchArray(); return $one; },
];
[$kept, $began] = [[], 0.0];
foreach ($make as $kind => $one) {
    $server->get("/$kind/{len}", function (int $len) use ($one, &$kept, &$began) {
        for ($kept = []; $len > 0; $len--) {
            $kept[] = $one();
        }
        $began = hrtime(true);
        return Response::text('');
    });
}
// Time from the end of the handler to the start of the next.
$server->get('/took', function () use (&$kept, &$began) {
    $took = hrtime(true) - $began;
    $last = end($kept);
    $left = $last instanceof PDOStatement ? $last->fetch() : $last->fetchArray();
    $kept = [];
    return Response::json([$took, $left]);
});
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite', 'sqlite3'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: [...$ini, '-dmemory_limit=1G', '-dfermata.blocking_call_ms=0']);
$client = $server->connect();
$took = function (string $kind, int $len) use ($client): int {
    $client->request('GET', "/$kind/$len");
    [$took, $left] = json_decode($client->request('GET', '/took')->body);
    if ($left !== false) {
        echo "$kind: a row is left\n";
    }
    return $took;
};
foreach (['query', 'execute', 'sqlite3'] as $kind) {
    // The fastest of several runs, because other processes use this machine, too.
    [$few, $many] = [PHP_INT_MAX, PHP_INT_MAX];
    for ($i = 0; $i < 4; $i++) {
        $few = min($few, $took($kind, 1000));
        $many = min($many, $took($kind, 16000));
    }
    // 16 times as many statements; 256 times the time if each searched all.
    echo "$kind: ", $many < 80 * $few ? 'linear' : "$few ns, $many ns", "\n";
}
var_dump($server->stop());
?>
--EXPECT--
query: linear
execute: linear
sqlite3: linear
int(0)
