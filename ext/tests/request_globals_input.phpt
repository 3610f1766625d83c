--TEST--
After fillGlobals() forms of POST alone are in the superglobals, filter_input() and getenv() have the request, and warnings tell what cannot be as under PHP-FPM
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
/** Opened by the script before any request. */
$early = fopen('php://input', 'r');
$server->any('/early', function (Request $r) use ($early) {
    $r->fillGlobals();
    return Response::json([is_resource($early), $early ? stream_get_contents($early) : null, file_get_contents('php://input')]);
});
$server->any('/all', function (Request $r) {
    $r->fillGlobals(['SCRIPT_NAME' => '/index.php']);
    return Response::json([$_POST, $_FILES, $_REQUEST, strlen(file_get_contents('php://input')), $_SERVER['CONTENT_LENGTH'] ?? null]);
});
$server->any('/filter', function (Request $r) {
    $r->fillGlobals();
    $_GET = $_POST = $_COOKIE = [];
    return Response::json([filter_input(INPUT_GET, 'a'), filter_input_array(INPUT_POST), filter_input(INPUT_COOKIE, 'c'), filter_input(INPUT_SERVER, 'HTTP_X_A'), getenv('HTTP_X_A')]);
});
// The input of a handler with superglobals is not visible to other handlers.
$server->any('/none', fn () => Response::json([filter_input(INPUT_GET, 'a'), filter_has_var(INPUT_COOKIE, 'c'), getenv('HTTP_X_A')]));
$server->any('/waits', function (Request $r) {
    $r->fillGlobals();
    $seen = filter_input(INPUT_GET, 'a');
    delay(0.05);
    $task = async(fn () => [filter_input(INPUT_GET, 'a'), getenv('HTTP_X_A')]);
    return Response::json([$seen, filter_input(INPUT_GET, 'a'), await($task)]);
});
$server->get('/odd', function (Request $r) {
    $r->fillGlobals();
    header('X-None');
    http_response_code(700);
    header_register_callback(fn () => throw new Exception('in the callback'));
    echo 'page';
    exit;
});
$server->get('/never', function (Request $r) {
    $r->fillGlobals();
    header_register_callback(fn () => print 'called');
    return Response::text('own');
});
PHP, 'workers: 1, limits: new Limits(handlers: 1)');

$form = ['Content-Type' => 'application/x-www-form-urlencoded'];
$parts = ['Content-Type' => 'multipart/form-data; boundary=B'];
$body = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nA\r\n--B--\r\n";
foreach ([1, 2] as $_) {
    echo $server->connect()->request('POST', '/early', ['Content-Type' => 'text/plain'], 'body'), "\n";
}
foreach (['PUT', 'PATCH', 'DELETE', 'OPTIONS'] as $method) {
    echo "$method: ", $server->connect()->request($method, '/all', $form, 'a=1'), ' ', $server->connect()->request($method, '/all', $parts, $body), "\n";
}
$large = str_repeat('x', 500_000);
echo $server->connect()->request('POST', '/all', ['Content-Type' => 'text/plain'], $large), "\n";
foreach (['/filter', '/none', '/waits', '/none'] as $path) {
    echo $server->connect()->request('POST', "$path?a=1", $form + ['Cookie' => 'c=2', 'X-A' => '3'], 'b=4'), "\n";
}
$odd = $server->get('/odd');
echo $odd, json_encode($odd->header('x-none')), "\n", $server->get('/never'), "\n";
echo $server->stop(), "\n", preg_replace('/^\S+ /m', '', $server->logged('/colon|from 200 to 599|callback|multipart/')), "\n";
?>
--EXPECT--
200 [true,"","body"]
200 [true,"","body"]
PUT: 200 [[],[],[],3,"3"] 200 [[],[],[],0,"73"]
PATCH: 200 [[],[],[],3,"3"] 200 [[],[],[],0,"73"]
DELETE: 200 [[],[],[],3,"3"] 200 [[],[],[],0,"73"]
OPTIONS: 200 [[],[],[],3,"3"] 200 [[],[],[],0,"73"]
200 [[],[],[],500000,"500000"]
200 ["1",{"b":"4"},"2","3","3"]
200 [null,false,false]
200 ["1","1",[null,false]]
200 [null,false,false]
200 page""
200 own
0
warning [worker 0] a multipart body of another method than POST is in no superglobal, as under PHP-FPM, and not in php://input either; read Request::form() and Request::files() in server.php:8
warning [worker 0] header() was given a line without a colon, which is sent as a header without a value in server.php:27
error   [worker 0] Exception: in the callback in server.php:29
warning [worker 0] the status that the program has set is not from 200 to 599; the response has 200 in server.php:38
warning [worker 0] the function that header_register_callback() was given was not called: this response takes no headers from header() in server.php:38
