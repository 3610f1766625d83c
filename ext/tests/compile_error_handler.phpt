--TEST--
A wait of an error handler while PHP compiles a file or links a class runs no other handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
// Each file causes a compiler warning, and returns its own number after it.
foreach (['a', 'b'] as $name) {
    $code = "<?php function f$name(\$one = 1, \$two) { return \$two; } \$sum = 0;" . str_repeat("\n\$sum += strlen('$name');", 50);
    file_put_contents(__DIR__ . "/file_$name.php", "$code return '$name' . \$sum . f$name(1, " . ($name === 'a' ? 1 : 2) . ');');
    file_put_contents(__DIR__ . "/class_$name.php", "<?php if (true) { class C$name implements Countable { public function count() { return 1; } } } return C$name::class;");
}
$others = 0;
$server->get('/{kind}/{name}/{ms}', function (string $kind, string $name, string $ms) use (&$others): Response {
    $others++;
    $seen = [];
    set_error_handler(function (int $type, string $message) use ($ms, &$others, &$seen): bool {
        $before = $others;
        delay((int) $ms / 1000);
        $seen[] = $others === $before ? 'alone' : 'others';
        return true;
    });
    $result = include __DIR__ . "/{$kind}_$name.php";
    restore_error_handler();
    // An included file works as before.
    delay(0.001);
    return Response::text($result . ' ' . implode(',', $seen));
});
PHP);
foreach (['file', 'class'] as $kind) {
    $connections = [];
    foreach (['a' => 60, 'b' => 120] as $name => $ms) {
        $connections[$name] = $server->connect();
        $connections[$name]->start('GET', "/$kind/$name/$ms");
    }
    foreach ($connections as $name => $connection) {
        echo "$kind $name: ", $connection->answer(), "\n";
    }
}
var_dump($server->stop());
?>
--EXPECT--
file a: 200 a501 alone
file b: 200 b502 alone
class a: 200 Ca alone
class b: 200 Cb alone
int(0)
