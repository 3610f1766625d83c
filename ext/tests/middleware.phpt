--TEST--
Middleware: order of server, groups and route; answering by itself, changing the answer, passing attributes on
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
/** Records its name before and after the handler. */
function mark(string $name): Closure
{
    return function (Request $request, callable $next) use ($name): Response|Hold {
        $answer = $next($request->withAttribute('way', $request->attribute('way', '') . $name));
        return $answer instanceof Response ? $answer->withAddedHeader('Way', $name) : $answer;
    };
}
final class Door
{
    public function __invoke(Request $request, Closure $next): Response|Hold
    {
        return $request->query('key') === 'right' ? $next($request) : Response::text('locked', 403);
    }
    public static function stamp(Request $request, Fermata\Next|Closure $next): Response|Hold
    {
        return $next($request)->withHeader('Stamp', 'yes');
    }
}
$told = fn (Request $request) => Response::text($request->attribute('way', 'none') . ' ' . json_encode($request->attributes()));
$server->get('/early', $told);
$server->use(mark('a'), mark('b'));
$server->get('/late', $told);
$server->get('/own', $told, [mark('x'), mark('y')]);
$server->get('/stamped', $told, middleware: ['Door::stamp', [Door::class, 'stamp']]);
$server->group('/group/{id}', function (Fermata\Routes $routes) use ($told) {
    $routes->get('', $told)
        ->get('/', $told)
        ->get('/route', fn (Request $request) => Response::text($request->route('id')), [new Door()])
        ->group('/inner', function (Fermata\Routes $routes) use ($told) {
            $routes->get('/leaf', $told, [mark('l')]);
            $routes->use(mark('i'));
        });
    $routes->use(mark('h'));
}, [mark('g')]);
$server->get('/hold', fn () => Hold::sse('news')->with(new Event('held')));
PHP);
$connection = $server->connect();
foreach (['/early', '/late', '/own', '/stamped', '/group/1', '/group/1/', '/group/1/inner/leaf', '/group/7/route', '/group/7/route?key=right'] as $target) {
    $answer = $connection->request('GET', $target);
    echo "$target: $answer | {$answer->header('way')} {$answer->header('stamp')}\n";
}
$connection->start('GET', '/hold');
$connection->head();
echo $connection->event(), "\n";
?>
--EXPECT--
/early: 200 ab {"way":"ab"} | b, a 
/late: 200 ab {"way":"ab"} | b, a 
/own: 200 abxy {"way":"abxy"} | y, x, b, a 
/stamped: 200 ab {"way":"ab"} | b, a yes
/group/1: 200 abgh {"way":"abgh"} | h, g, b, a 
/group/1/: 200 abgh {"way":"abgh"} | h, g, b, a 
/group/1/inner/leaf: 200 abghil {"way":"abghil"} | l, i, h, g, b, a 
/group/7/route: 403 locked | h, g, b, a 
/group/7/route?key=right: 200 7 | h, g, b, a 
message: held
