--TEST--
fillGlobals(): $_SERVER of a request shows nothing of those before, with the same headers and others, also where a program wrote to it or keeps it
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Limits, Request, Response, Server};
use Fermata\Testing\Engine;

$others = ['APP_ENV' => 'test', 'LIST' => ['a']];
$kept = [];
$number = 0;
$names = ['REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'HTTP_HOST', 'SERVER_NAME', 'SERVER_PROTOCOL', 'HTTP_X_ONE', 'HTTP_X_TWO',
    'HTTP_AUTHORIZATION', 'PHP_AUTH_USER', 'CONTENT_TYPE', 'HTTP_COOKIE', 'APP_ENV', 'MINE'];
$server = new Server(limits: new Limits(handlers: 1));
$server->any('/{path...}', function (Request $request) use (&$kept, &$number, $others, $names) {
    $request->fillGlobals($others);
    $number++;
    $seen = array_intersect_key($_SERVER, array_flip($names));
    ksort($seen);
    $fresh = $request->serverParams($others);
    $same = array_diff_key($_SERVER, ['REQUEST_TIME' => 1, 'REQUEST_TIME_FLOAT' => 1]) == array_diff_key($fresh, ['REQUEST_TIME' => 1, 'REQUEST_TIME_FLOAT' => 1]);
    $time = abs($_SERVER['REQUEST_TIME_FLOAT'] - microtime(true)) < 5 && $_SERVER['REQUEST_TIME'] === (int) $_SERVER['REQUEST_TIME_FLOAT'];
    echo $number, $same && $time ? ' ' : ' WRONG ', json_encode(array_diff($seen, ['HTTP/1.1', 'test']), JSON_UNESCAPED_SLASHES),
        json_encode([$_GET, $_COOKIE, $_POST, $_FILES, $_REQUEST]), "\n";
    match ($number % 4) {
        0 => $_SERVER['MINE'] = $_SERVER['HTTP_X_ONE'] = "written by $number",
        1 => $kept[$number] = $_SERVER,
        2 => (function () { foreach ($_SERVER as &$value) { $value = 'by reference'; } $_GET['a'] = $_COOKIE['c'] = 'left'; })(),
        3 => $_SERVER = ['MINE' => 'all of it'],
    };
    return Response::text('');
});
$engine = new Engine($server);
$ask = function (string $target, array $headers, string $method = 'GET') use ($engine) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "$method $target HTTP/1.1\r\n" . implode('', array_map(fn ($line) => "$line\r\n", $headers)) . "\r\n");
    ob_start(fn ($text) => $text);
    $engine->run();
    ob_end_flush();
};
for ($i = 1; $i <= 9; $i++) {
    $ask("/page/$i", ['Host: test', "X-One: $i"]);
}
echo "other headers\n";
$ask('/a?b=c', ['Host: test', 'X-One: a', 'X-Two: b']);
$ask('/a?b=c', ['Host: test', 'X-One: a', 'X-Two: b', 'Cookie: d=e']);
$ask('/a', ['Host: test', 'X-One: a', 'X-Two: b', 'Cookie: f=g']);
$ask('/a', ['Host: other:81', 'X-One: a', 'X-Two: ', 'Cookie: h=i'], 'OPTIONS');
$ask('/a', ['Host: test', 'X-One: a', 'X-Two: b', 'Authorization: Basic YTpi']);
$ask('/a', ['Host: test', 'X-One: a', 'X-Two: b', 'Authorization: Basic YTpi']);
$ask('/a', ['Host: test', 'X-One: a', 'X-Two: b']);
echo "twice in one place\n";
for ($i = 1; $i <= 3; $i++) {
    $ask('/a', ['Host: test', "X-One: $i", "X-One: 1$i"]);
}
echo "more headers than are remembered\n";
$many = array_map(fn ($i) => "X-$i: a", range(1, 31));
$number = 99;
foreach ([0, 0, 0, 1, 0] as $more) {
    $ask('/a', ['Host: test', ...$many, ...array_fill(0, $more, 'X-One: one more')]);
}
foreach ($kept as $by => $params) {
    echo $by, ' ', $params['REQUEST_URI'], ' ', $params['HTTP_X_ONE'] ?? '-', "\n";
}
?>
--EXPECT--
1 {"HTTP_X_ONE":"1","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/1"}[[],[],[],[],[]]
2 {"HTTP_X_ONE":"2","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/2"}[[],[],[],[],[]]
3 {"HTTP_X_ONE":"3","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/3"}[[],[],[],[],[]]
4 {"HTTP_X_ONE":"4","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/4"}[[],[],[],[],[]]
5 {"HTTP_X_ONE":"5","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/5"}[[],[],[],[],[]]
6 {"HTTP_X_ONE":"6","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/6"}[[],[],[],[],[]]
7 {"HTTP_X_ONE":"7","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/7"}[[],[],[],[],[]]
8 {"HTTP_X_ONE":"8","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/8"}[[],[],[],[],[]]
9 {"HTTP_X_ONE":"9","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/page/9"}[[],[],[],[],[]]
other headers
10 {"HTTP_X_ONE":"a","HTTP_X_TWO":"b","QUERY_STRING":"b=c","REQUEST_METHOD":"GET","REQUEST_URI":"/a?b=c"}[{"b":"c"},[],[],[],{"b":"c"}]
11 {"HTTP_COOKIE":"d=e","HTTP_X_ONE":"a","HTTP_X_TWO":"b","QUERY_STRING":"b=c","REQUEST_METHOD":"GET","REQUEST_URI":"/a?b=c"}[{"b":"c"},{"d":"e"},[],[],{"b":"c","d":"e"}]
12 {"HTTP_COOKIE":"f=g","HTTP_X_ONE":"a","HTTP_X_TWO":"b","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],{"f":"g"},[],[],{"f":"g"}]
13 {"HTTP_COOKIE":"h=i","HTTP_HOST":"other:81","HTTP_X_ONE":"a","HTTP_X_TWO":"","QUERY_STRING":"","REQUEST_METHOD":"OPTIONS","REQUEST_URI":"/a","SERVER_NAME":"other"}[[],{"h":"i"},[],[],{"h":"i"}]
14 {"HTTP_AUTHORIZATION":"Basic YTpi","HTTP_X_ONE":"a","HTTP_X_TWO":"b","PHP_AUTH_USER":"a","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
15 {"HTTP_AUTHORIZATION":"Basic YTpi","HTTP_X_ONE":"a","HTTP_X_TWO":"b","PHP_AUTH_USER":"a","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
16 {"HTTP_X_ONE":"a","HTTP_X_TWO":"b","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
twice in one place
17 {"HTTP_X_ONE":"1, 11","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
18 {"HTTP_X_ONE":"2, 12","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
19 {"HTTP_X_ONE":"3, 13","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
more headers than are remembered
100 {"QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
101 {"QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
102 {"QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
103 {"HTTP_X_ONE":"one more","QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
104 {"QUERY_STRING":"","REQUEST_METHOD":"GET","REQUEST_URI":"/a"}[[],[],[],[],[]]
1 /page/1 1
5 /page/5 5
9 /page/9 9
13 /a a
17 /a 1, 11
101 /a -
