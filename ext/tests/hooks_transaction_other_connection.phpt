--TEST--
Hooks: a library that counts its own transaction on the stack does not refuse calls on another connection
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook();
// Like Doctrine DBAL: the connection is wrapped by a driver and a middleware.
final class Driver
{
    public function __construct(public readonly object $connection) {}
}
final class Counting
{
    private ?Driver $driver;
    private int $transactionNestingLevel = 0;
    public function __construct(public readonly PDO $pdo) { $this->driver = new Driver(new Driver($pdo)); }
    public function transactional(Closure $work): mixed
    {
        if (++$this->transactionNestingLevel === 1) {
            $this->driver->connection->connection->beginTransaction();
        }
        try {
            return $work($this->driver->connection->connection);
        } finally {
            if (--$this->transactionNestingLevel === 0) {
                $this->driver->connection->connection->rollBack();
            }
        }
    }
}
$open = function (string $name): PDO {
    $pdo = new PDO('sqlite:' . __DIR__ . "/$name.sqlite", options: [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    $pdo->exec('CREATE TABLE IF NOT EXISTS t (value INTEGER)');
    return $pdo;
};
// Another handler's transaction is open on the shared connection, so the query queues for it.
$hold = function (PDO $shared): void {
    $shared->beginTransaction();
    $shared->exec('INSERT INTO t VALUES (1)');
    delay(0.02);
    $shared->commit();
};
$server->get('/other', function () use ($open, $hold): Response {
    $shared = $open('shared');
    $own = new Counting($open('own'));
    $holder = async(fn () => $hold($shared));
    delay(0.005);
    $rows = $own->transactional(fn () => $shared->query('SELECT count(*) FROM t')->fetchColumn());
    await($holder);
    $again = $own->transactional(fn () => $shared->query('SELECT count(*) FROM t')->fetchColumn());
    return Response::text("$rows $again");
});
$server->get('/same', function () use ($open): Response {
    $counting = new Counting($open('same'));
    $work = function (PDO $pdo): void {
        $pdo->exec('INSERT INTO t VALUES (1)');
        delay(0.02);
    };
    for ($i = 0; $i < 5; $i++) {
        $tasks[] = async(fn () => $counting->transactional($work));
    }
    $refused = 0;
    foreach ($tasks as $task) {
        try {
            await($task);
        } catch (Fermata\Exception\SharedTransactionException) {
            $refused++;
        } catch (PDOException $e) {
            $refused += $e->getPrevious() instanceof Fermata\Exception\SharedTransactionException;
        }
    }
    return Response::text(($refused ? 'refused' : 'accepted') . ' ' . $open('same')->query('SELECT count(*) FROM t')->fetchColumn());
});
PHP, ini: array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so"))));
foreach (['/other', '/same'] as $path) {
    echo "$path: ", $server->get($path), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
/other: 200 1 1
/same: 200 refused 0
int(0)
