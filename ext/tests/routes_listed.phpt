--TEST--
routes() tells what was added, and a tool of development is called before the server binds
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Hold, Request, Response, Routes, Server};

class Books
{
    public function show(Request $request): Response { return Response::text(''); }
}
function health(): Response { return Response::text('OK'); }

$server = new Server('http://127.0.0.1:0');
var_dump($server->routes());
$server->get('/', fn () => Response::text(''));
$server->group('/api', function (Routes $routes): void {
    $routes->any('/books/{id}', [new Books(), 'show']);
    $routes->static('/files', __DIR__);
});
$server->post('/health', 'health');
$server->websocket('/chat', message: function () {});
foreach ($server->routes() as ['kind' => $kind, 'method' => $method, 'path' => $path, 'handler' => $handler]) {
    echo "$kind $method $path ", str_replace(__DIR__ . '/', '', $handler === __DIR__ ? '.' : $handler), "\n";
}

$tool = __DIR__ . '/routes_listed.tool.php';
file_put_contents($tool, '<?php return 1;');
putenv("FERMATA_DEVELOPMENT=$tool");
try {
    $server->run();
} catch (Fermata\Exception\MisuseError $error) {
    echo str_replace(__DIR__, '', $error->getMessage()), "\n";
}
file_put_contents($tool, '<?php return function ($server) { echo count($server->routes()), " routes\n"; throw new LogicException("stop"); };');
try {
    (new Server('http://127.0.0.1:0'))->get('/', 'health')->run();
} catch (LogicException $error) {
    echo $error->getMessage(), "\n";
}
// A group and its server refer to each other.
unset($server);
gc_collect_cycles();
?>
--CLEAN--
<?php @unlink(__DIR__ . '/routes_listed.tool.php'); ?>
--EXPECTF--
array(0) {
}
handler GET / routes_listed.php:%d
handler  /api/books/{id} Books::show
static  /api/files .
handler POST /health health
websocket GET /chat routes_listed.php:%d
/routes_listed.tool.php: the file that FERMATA_DEVELOPMENT names returns no function; fermata dev sets it
1 routes
stop
