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
$server->get('/context', function () { Context::set('bomb', new Bomb('context')); return Response::text('sent'); });
$server->get('/context/waits', function () { Context::set('bomb', new Bomb('waits')); Context::set('next', new Bomb('next')); delay(0.001); return Response::text('sent'); });
$server->get('/context/task', function () { await(async(function () { Context::set('bomb', new Bomb('task')); })); return Response::text((string) Context::get('bomb', 'none')); });
$server->get('/context/set', function () {
    Context::set('bomb', new Bomb('set'));
    try { Context::set('bomb', 'second'); } catch (Exception $e) { return Response::text($e->getMessage() . ' ' . Context::get('bomb')); }
    return Response::text('nothing thrown');
});
$server->get('/trace', function () { (function (Bomb $bomb) { throw new Exception('first'); })(new Bomb('trace')); });
PHP);
foreach (['/local', '/', '/returned', '/', '/context', '/', '/context/waits', '/', '/context/task', '/', '/context/set', '/', '/trace', '/'] as $target) {
    $answer = $server->get($target);
    echo $answer->status, $answer->status === 200 ? " $answer->body" : '', "\n";
}
$server->wait('/bomb task/');
foreach (['local', 'returned', 'context', 'waits', 'next', 'task', 'set', 'trace'] as $name) {
    echo substr_count($server->log(), "Exception: bomb $name"), "\n";
}
?>
--EXPECT--
500
200 alive
500
200 alive
200 sent
200 alive
200 sent
200 alive
200 none
200 alive
200 bomb set second
200 alive
500
200 alive
1
1
1
1
1
1
0
1
