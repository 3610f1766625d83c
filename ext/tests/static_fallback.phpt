--TEST--
static(fallback:) answers below its prefix what no file does, whatever the method, inside its group's middleware
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$directory = sys_get_temp_dir() . '/fermata-fallback-' . getmypid();
@mkdir("$directory/sub", recursive: true);
mkdir("$directory/empty");
file_put_contents("$directory/a.txt", 'content');
file_put_contents("$directory/index.php", '<?php secret');
file_put_contents("$directory/sub/index.html", 'index');

function ask(TestServer $server, array $targets, array $headers = []): void
{
    $connection = $server->connect();
    foreach ($targets as $target) {
        [$method, $path] = explode(' ', $target);
        $answer = $connection->request($method, $path, $headers, $method === 'POST' ? 'body' : '');
        echo "$target: ", trim($answer), rtrim(" | {$answer->header('seen')} | {$answer->header('location')}"), "\n";
    }
}
$routes = <<<PHP
\$front = fn (Request \$r) => Response::text("front: {\$r->method()} {\$r->path()} {\$r->body()}" . json_encode(\$r->queries()));
\$server->get("/api/{id}", fn (Request \$r) => Response::text("api {\$r->route("id")}"));
\$server->get('/known', fn () => Response::text('known'));
\$server->static('/', '$directory', fallback: \$front);
\$server->group('/in', fn (\$routes) => \$routes->static('/f', '$directory', fallback: fn (Request \$r) => Response::text("inner: {\$r->method()} {\$r->path()}", 203)),
    middleware: [function (Request \$request, callable \$next) {
        return \$request->query('key') === 'no' ? Response::text('no', 403) : \$next(\$request)->withHeader('Seen', 'group');
    }]);
\$server->notFound(fn () => Response::text('not found', 404));
PHP;
echo "-- alone\n";
$server = new TestServer($routes);
$all = ['GET /api/7', 'POST /api/7', 'GET /a.txt', 'HEAD /a.txt', 'POST /a.txt', 'GET /', 'GET /page?x=1', 'POST /page', 'OPTIONS /page', 'PROPFIND /page', 'GET /index.php', 'GET /sub', 'GET /sub/',
    'GET /empty/', 'GET /a%2Fb', 'GET /known', 'POST /known', 'GET /page'];
ask($server, $all);
ask($server, ['GET /in/f/a.txt', 'GET /in/f/none', 'POST /in/f/none', 'GET /in/f/none?key=no', 'POST /in/f/none?key=no', 'GET /in/f/x%2Fy', 'GET /in/g']);
echo "-- with middleware of the server's\n";
$server = new TestServer($routes . '$server->use(fn (Request $r, callable $next) => $next($r)->withHeader("Seen", "all"));');
ask($server, ['GET /a.txt', 'GET /page', 'POST /page', 'GET /in/f/none', 'POST /in/f/none', 'GET /known']);
echo "-- mistakes\n";
$server = new Fermata\Server();
foreach ([fn () => $server->static('/x', $directory, fallback: fn (int $no) => null), fn () => $server->static('/x', '/nowhere', fallback: fn () => null)] as $mistake) {
    try {
        $mistake();
    } catch (Error $e) {
        echo get_class($e), ': ', strtok($e->getMessage(), ';'), "\n";
    }
}
$server->static('/y', $directory, fallback: fn () => $server);
echo implode(' ', array_column($server->routes(), 'kind')), "\n";
unset($server, $mistake, $e);
echo gc_collect_cycles() > 0 ? "collected\n" : "kept\n";
array_map('unlink', ["$directory/a.txt", "$directory/sub/index.html", "$directory/index.php"]);
array_map('rmdir', ["$directory/sub", "$directory/empty", $directory]);
?>
--EXPECT--
-- alone
GET /api/7: 200 api 7 |  |
POST /api/7: 200 front: POST /api/7 body[] |  |
GET /a.txt: 200 content |  |
HEAD /a.txt: 200 |  |
POST /a.txt: 200 front: POST /a.txt body[] |  |
GET /: 200 front: GET / [] |  |
GET /page?x=1: 200 front: GET /page {"x":"1"} |  |
POST /page: 200 front: POST /page body[] |  |
OPTIONS /page: 200 front: OPTIONS /page [] |  |
PROPFIND /page: 200 front: PROPFIND /page [] |  |
GET /index.php: 200 front: GET /index.php [] |  |
GET /sub: 308 |  | /sub/
GET /sub/: 200 index |  |
GET /empty/: 200 front: GET /empty/ [] |  |
GET /a%2Fb: 200 front: GET /a%2Fb [] |  |
GET /known: 200 known |  |
POST /known: 200 front: POST /known body[] |  |
GET /page: 200 front: GET /page [] |  |
GET /in/f/a.txt: 200 content | group |
GET /in/f/none: 203 inner: GET /in/f/none | group |
POST /in/f/none: 203 inner: POST /in/f/none | group |
GET /in/f/none?key=no: 403 no |  |
POST /in/f/none?key=no: 403 no |  |
GET /in/f/x%2Fy: 203 inner: GET /in/f/x%2Fy | group |
GET /in/g: 200 front: GET /in/g [] |  |
-- with middleware of the server's
GET /a.txt: 200 content | all |
GET /page: 200 front: GET /page [] | all |
POST /page: 200 front: POST /page body[] | all |
GET /in/f/none: 203 inner: GET /in/f/none | all |
POST /in/f/none: 203 inner: POST /in/f/none | all |
GET /known: 200 known | all |
-- mistakes
Fermata\Exception\MisuseError: the parameter $no of the handler of /x can be given neither the Fermata\Request nor a parameter {no} of its path, which has none
Fermata\Exception\MisuseError: the directory /nowhere cannot be served: No such file or directory (os error 2)
static fallback
collected
