--TEST--
Every kind of callable can be a handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
final class Controller
{
    public function method(Request $r): Response { return Response::text('method'); }
    private function hidden(Request $r): Response { return Response::text('hidden'); }
    public static function fixed(Request $r): Response { return Response::text('static'); }
    public function __invoke(Request $r): Response { return Response::text('invoke'); }
    public function __call(string $name, array $arguments): Response { return Response::text("call $name " . $arguments[0]->path()); }
    public static function __callStatic(string $name, array $arguments): Response { return Response::text("callStatic $name"); }
    public function own(): Closure { return $this->hidden(...); }
}
function plain(Request $r): Response { return Response::text('function'); }
$server->get('/closure', function (Request $r) { return Response::text('closure'); });
$server->get('/static-closure', static fn () => Response::text('static closure'));
$server->get('/function', 'plain');
$server->get('/method', [new Controller(), 'method']);
$server->get('/fixed', [Controller::class, 'fixed']);
$server->get('/string', 'Controller::fixed');
$server->get('/invoke', new Controller());
$server->get('/first-class', plain(...));
$server->get('/hidden', (new Controller())->own());
$server->get('/call', [new Controller(), 'anything']);
$server->get('/call-static', [Controller::class, 'something']);
$server->get('/native', Response::accepted(...));
PHP);
foreach (['closure', 'static-closure', 'function', 'method', 'fixed', 'string', 'invoke', 'first-class', 'hidden', 'call', 'call-static'] as $name) {
    for ($i = 0; $i < 3; $i++) {
        $answer = $server->get("/$name");
    }
    echo $answer, "\n";
}
echo $server->get('/native')->status, "\n";
?>
--EXPECTF--
200 closure
200 static closure
200 function
200 method
200 static
200 static
200 invoke
200 function
200 hidden
200 call anything /call
200 callStatic something
500
