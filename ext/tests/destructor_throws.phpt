--TEST--
Destructors that throw: before the answer 500, after it only a log line
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
final class Bomb { public function __construct(private string $name) {} public function __destruct() { throw new Exception("bomb $this->name"); } }
$server->get('/', fn () => Response::text('alive'));
$server->get('/local', function () { $bomb = new Bomb('local'); return Response::text('never sent'); });
$server->get('/returned', fn () => new Bomb('returned'));
$server->get('/trace', function () { (function (Bomb $bomb) { throw new Exception('first'); })(new Bomb('trace')); });
PHP);
foreach (['/local', '/', '/returned', '/', '/trace', '/'] as $target) {
    $answer = $server->get($target);
    echo $answer->status, $answer->status === 200 ? " $answer->body" : '', "\n";
}
foreach (['local', 'returned', 'trace'] as $name) {
    echo substr_count($server->log(), "Exception: bomb $name"), "\n";
}
?>
--EXPECT--
500
200 alive
500
200 alive
500
200 alive
1
1
1
