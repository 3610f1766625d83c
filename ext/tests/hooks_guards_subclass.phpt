--TEST--
Hooks: classes that were declared before the hooks are guarded as those that they extend
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
use Fermata\Hook;
Fermata\Runtime::hook(...Hook::cases());
// PHP declares these classes when it compiles the file, before it runs the line above.
class Database extends PDO {}
class Rows extends PDOStatement {}

$statements = [];
foreach ([PDO::class => PDOStatement::class, Database::class => Rows::class] as $class => $rows) {
    $database = new $class('sqlite::memory:');
    $database->setAttribute(PDO::ATTR_STATEMENT_CLASS, [$rows]);
    $statements[$class] = $database->prepare("SELECT ? || ' ' || value FROM (SELECT 1 AS value UNION SELECT 2)");
}
$begun = 0;
$goes = false;
// A second execution of the statement before the first has ended would take its rows.
$server->get('/execute/{class}/{who}', function (Request $request) use ($statements, &$begun, &$goes) {
    $statement = $statements[$request->route('class')];
    $begun++;
    $statement->execute([$request->route('who')]);
    while (!$goes) {
        delay(0.001);
    }
    $rows = [$statement->fetchColumn()];
    foreach ($statement as [$row]) {
        $rows[] = $row;
    }
    return Response::json($rows);
});
$server->get('/begun', function () use (&$begun) { return Response::text("$begun"); });
$server->get('/go', function () use (&$begun, &$goes) { $begun = 0; $goes = true; return Response::text('goes'); });
$server->get('/stop', function () use (&$goes) { $goes = false; return Response::text('stops'); });
PHP;

function ask(TestServer $server, string $target, int $begun): Connection
{
    $connection = $server->connect();
    $connection->start('GET', $target);
    $deadline = microtime(true) + WAIT_S;
    while ((string) $server->get('/begun') !== "200 $begun" && microtime(true) < $deadline) {
        usleep(1000);
    }
    return $connection;
}

$folder = ini_get('extension_dir');
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file("$folder/$name.so")));
// With OPcache the classes are in shared memory.
$opcache = is_file("$folder/opcache.so") ? ['-dzend_extension=opcache'] : [];
foreach ([$ini, [...$ini, ...$opcache, '-dopcache.enable_cli=1']] as $ini) {
    $server = new TestServer($program, ini: $ini);
    foreach (['PDO', 'Database'] as $class) {
        $server->get('/stop');
        $first = ask($server, "/execute/$class/first", 1);
        $second = ask($server, "/execute/$class/second", 2);
        $server->get('/go');
        echo "$class: ", $first->answer(), ' ', $second->answer(), "\n";
    }
    var_dump($server->stop());
    echo $server->logged('/error/');
}
?>
--EXPECT--
PDO: 200 ["first 1","first 2"] 200 ["second 1","second 2"]
Database: 200 ["first 1","first 2"] 200 ["second 1","second 2"]
int(0)
PDO: 200 ["first 1","first 2"] 200 ["second 1","second 2"]
Database: 200 ["first 1","first 2"] 200 ["second 1","second 2"]
int(0)
