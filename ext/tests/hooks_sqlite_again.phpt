--TEST--
Hook::Sqlite: a prepared statement of PDO whose commit or row was refused can be executed again
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sqlite);
$file = __DIR__ . '/database';
$connect = fn (int $mode) => new PDO("sqlite:$file", options: [PDO::ATTR_TIMEOUT => 0, PDO::ATTR_ERRMODE => $mode]);
$connect(PDO::ERRMODE_EXCEPTION)->exec("CREATE TABLE words (word TEXT UNIQUE); INSERT INTO words VALUES ('a'), ('b')");
$server->get('/{kind}/{mode}', function (string $kind, int $mode) use ($connect) {
    $pdo = $connect($mode);
    $statement = $pdo->prepare('INSERT INTO words VALUES (?)' );
    $error = function (string $word) use ($statement) {
        try {
            return $statement->execute([$word]) ? $statement->errorCode() : $statement->errorInfo();
        } catch (PDOException $e) {
            return $e->errorInfo;
        }
    };
    $errors = [];
    if ($kind !== 'unique') {
        $rows = $connect(PDO::ERRMODE_EXCEPTION)->query('SELECT word FROM words');
        $rows->fetchColumn();
        array_push($errors, $error("$kind $mode"), $error("$kind $mode"));
        $rows->closeCursor();
    } else {
        array_push($errors, $error('a'), $error('a'));
    }
    $errors[] = $error("$kind $mode");
    return Response::json($errors);
});
$server->get('/words', fn () => Response::json($connect(PDO::ERRMODE_EXCEPTION)->query('SELECT word FROM words')->fetchAll(PDO::FETCH_COLUMN)));
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
foreach (['plain', 'unique'] as $kind) {
    foreach ([PDO::ERRMODE_SILENT, PDO::ERRMODE_EXCEPTION] as $mode) {
        echo "$kind: ", $server->get("/$kind/$mode"), "\n";
    }
}
echo $server->get('/words'), "\n";
var_dump($server->stop());
?>
--EXPECT--
plain: 200 [["HY000",5,"database is locked"],["HY000",5,"database is locked"],"00000"]
plain: 200 [["HY000",5,"database is locked"],["HY000",5,"database is locked"],"00000"]
unique: 200 [["23000",19,"UNIQUE constraint failed: words.word"],["23000",19,"UNIQUE constraint failed: words.word"],"00000"]
unique: 200 [["23000",19,"UNIQUE constraint failed: words.word"],["23000",19,"UNIQUE constraint failed: words.word"],"00000"]
200 ["a","b","plain 0","plain 2","unique 0","unique 2"]
int(0)
