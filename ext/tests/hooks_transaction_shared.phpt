--TEST--
Hooks: an object that counts nested transactions and is shared by handlers is refused; no rolled-back row stays
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

// Classes that count transactions like Doctrine DBAL 3 (no nesting), and like Eloquent and DBAL 4 (savepoints).
$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook();
abstract class Counting
{
    protected int $transactionNestingLevel = 0;
    public function __construct(public readonly PDO $pdo) {}
    public function add(): void { $this->pdo->exec('INSERT INTO t VALUES (1)'); }
}
final class Plain extends Counting
{
    public function begin(): void { if (++$this->transactionNestingLevel === 1) { $this->pdo->beginTransaction(); } }
    public function rollBack(): void { if (--$this->transactionNestingLevel === 0) { $this->pdo->rollBack(); } }
}
final class Savepoints extends Counting
{
    public function begin(): void { if (++$this->transactionNestingLevel === 1) { $this->pdo->beginTransaction(); } else { $this->pdo->exec("SAVEPOINT l{$this->transactionNestingLevel}"); } }
    public function rollBack(): void { if (--$this->transactionNestingLevel === 0) { $this->pdo->rollBack(); } else { $this->pdo->exec('ROLLBACK TO SAVEPOINT l' . ($this->transactionNestingLevel + 1)); } }
}
$open = function (string $class): Counting {
    $connection = new $class(new PDO('sqlite:' . __DIR__ . "/$class.sqlite", options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]));
    $connection->pdo->exec('CREATE TABLE IF NOT EXISTS t (value INTEGER)');
    return $connection;
};
$undo = function (Counting $connection): void {
    $connection->begin();
    try {
        $connection->add();
        delay(0.02);
    } finally {
        $connection->rollBack();
    }
};
$counted = fn (string $class): string => $open($class)->pdo->query('SELECT count(*) FROM t')->fetchColumn() . ' rows';
$server->get('/shared/{class}', function (Request $request) use ($open, $undo, $counted): Response {
    $connection = $open($class = $request->route('class'));
    $ended = [];
    for ($i = 0; $i < 20; $i++) {
        $tasks[] = async(fn () => $undo($connection));
    }
    foreach ($tasks as $task) {
        try {
            await($task);
            $ended['undone'] = true;
        } catch (Fermata\Exception\SharedTransactionException $e) {
            $ended['refused'] = str_contains($e->getMessage(), 'Fermata\Pool');
        } catch (PDOException $e) {
            // An exception of a rollback in a finally block has the refusal as its previous one, or is about a missing savepoint.
            $ended['failed'] = true;
        }
    }
    return Response::text(var_export($ended['refused'] ?? null, true) . ' ' . $counted($class));
});
// A library that leaves its transaction open at the end of a handler keeps counting it.
$kept = null;
$server->get('/left', function () use (&$kept, $open): Response {
    $kept = $open('Plain');
    $kept->begin();
    $kept->add();
    return Response::text('left');
});
$server->get('/again', function () use (&$kept, $undo, $counted): Response {
    try {
        $undo($kept);
    } catch (Exception $e) {
        return Response::text(($e instanceof PDOException ? $e->getPrevious() : $e)::class . ', ' . $counted('Plain'));
    }
    return Response::text('undone, ' . $counted('Plain'));
});
// One object for each task; then one without a counter.
$pool = new Fermata\Pool(fn () => $open('Plain'), 4);
$server->get('/pool', function () use ($pool, $undo, $counted): Response {
    for ($i = 0; $i < 20; $i++) {
        $tasks[] = async(fn () => $pool->use($undo));
    }
    all(...$tasks);
    return Response::text($counted('Plain'));
});
$server->get('/pdo', function () use ($open, $counted): Response {
    $pdo = $open('Plain')->pdo;
    for ($i = 0; $i < 20; $i++) {
        $tasks[] = async(function () use ($pdo, $i) {
            $pdo->beginTransaction();
            $pdo->exec('SAVEPOINT inner');
            $pdo->exec('INSERT INTO t VALUES (1)');
            delay(0.001);
            $pdo->exec('RELEASE SAVEPOINT inner');
            $i === 7 ? $pdo->commit() : $pdo->rollBack();
        });
    }
    all(...$tasks);
    return Response::text($counted('Plain'));
});
PHP, ini: array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so"))));
foreach (['/shared/Plain', '/shared/Savepoints', '/pool', '/left', '/again', '/again', '/pdo'] as $path) {
    echo "$path: ", $server->get($path), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
/shared/Plain: 200 true 0 rows
/shared/Savepoints: 200 true 0 rows
/pool: 200 0 rows
/left: 200 left
/again: 200 Fermata\Exception\SharedTransactionException, 0 rows
/again: 200 Fermata\Exception\SharedTransactionException, 0 rows
/pdo: 200 1 rows
int(0)
