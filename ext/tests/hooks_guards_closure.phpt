--TEST--
Hooks: closures of a client's functions that were made before Runtime::hook() are guarded as the functions are
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
$db = new PDO('sqlite:' . __DIR__ . '/database');
$db->exec('CREATE TABLE words (word TEXT)');
[$begin, $exec, $query] = [$db->beginTransaction(...), Closure::fromCallable([$db, 'exec']), (new ReflectionMethod($db, 'query'))->getClosure($db)];
Fermata\Runtime::hook(Fermata\Hook::Sleep);
$server->get('/left', function () use ($begin, $exec) {
    $begin();
    $exec("INSERT INTO words VALUES ('left')");
    return Response::text('left');
});
$server->get('/next', function () use ($begin, $exec, $query, $db) {
    $count = $query('SELECT COUNT(*) FROM words')->fetchColumn();
    return Response::json([$db->inTransaction(), (int) $count]);
});
PHP;
$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer($program, ini: $ini);
for ($i = 0; $i < 3; $i++) {
    echo $server->get('/left'), ', ', $server->get('/next'), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
200 left, 200 [false,0]
200 left, 200 [false,0]
200 left, 200 [false,0]
int(0)
