--TEST--
An error handler that looks at the request whose variables PHP warns of, waits, throws or exits: nobody else notices
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
$server->get('/other', function (Request $r) { parse_str(http_build_query($r->queries()), $all); return Response::text(count($r->queries()) . ' ' . count($all)); });
$ways = [
    'looks' => function (Request $r) { $r->queries(); $r->forms(); $r->files(); $r->cookies(); parse_str(http_build_query(array_fill(0, 900, 'x')), $other); return count($other) === 900; },
    'waits' => function (Request $r) { delay(0.01); return count($r->queries()) <= 1000; },
    'throws' => function () { throw new ErrorException('from the error handler'); },
    'exits' => function () { exit(1); },
];
foreach ($ways as $name => $way) {
    $server->post("/$name", function (Request $r) use ($way, $name) {
        $called = 0;
        set_error_handler(function () use ($r, $way, &$called) { $called++; return $way($r); });
        $all = [];
        foreach (['queries', 'forms', 'files', 'fillGlobals'] as $method) {
            try {
                $value = $r->$method();
                $all[] = $value === null ? count($_COOKIE) . '/' . count($_FILES) : count($value);
            } catch (ErrorException $error) {
                $all[] = $error->getMessage();
            }
        }
        return Response::text("$called: " . implode(', ', $all));
    });
}
PHP;
$deep = str_repeat('[b]', 70);
$many = http_build_query(array_fill(0, 1100, 'x'));
$file = fn (string $name, string $rest, string $value) => "--x\r\nContent-Disposition: form-data; name=\"$name\"$rest\r\n\r\n$value\r\n";
$multipart = $file("a$deep", '', '1') . $file('b', '', '2') . $file("f$deep", '; filename="f"', 'text') . $file('g', '; filename="g"', 'text') . "--x--\r\n";
foreach ([
    'query' => ["?$many", [], ''],
    'nested query' => ["?a$deep=1&b=2", [], ''],
    'form' => ['', ['Content-Type' => 'application/x-www-form-urlencoded'], $many],
    'multipart' => ['', ['Content-Type' => 'multipart/form-data; boundary=x'], $multipart],
    'cookies' => ['', ['Cookie' => "a$deep=1; b=2; b=3"], ''],
] as $what => [$query, $headers, $body]) {
    $server = new TestServer($code, 'workers: 1, limits: new Limits(handlers: 1)', ['-ddisplay_errors=0']);
    foreach (['looks', 'waits', 'throws', 'exits'] as $way) {
        $connection = $server->connect();
        $connection->start('POST', "/$way$query", $headers, $body);
        $other = $server->get('/other?' . http_build_query(array_fill(0, 200, 'x')));
        echo "$what, $way: ", $other, ' | ', rtrim($connection->answer()), "\n";
    }
    var_dump($server->stop());
}
?>
--EXPECT--
query, looks: 200 200 200 | 200 1: 1000, 0, 0, 0/0
query, waits: 200 200 200 | 200 1: 1000, 0, 0, 0/0
query, throws: 200 200 200 | 200 2: from the error handler, 0, 0, from the error handler
query, exits: 200 200 200 | 500 The server has failed to answer; its log tells why.
int(0)
nested query, looks: 200 200 200 | 200 1: 1, 0, 0, 0/0
nested query, waits: 200 200 200 | 200 1: 1, 0, 0, 0/0
nested query, throws: 200 200 200 | 200 2: from the error handler, 0, 0, from the error handler
nested query, exits: 200 200 200 | 500 The server has failed to answer; its log tells why.
int(0)
form, looks: 200 200 200 | 200 1: 0, 1000, 0, 0/0
form, waits: 200 200 200 | 200 1: 0, 1000, 0, 0/0
form, throws: 200 200 200 | 200 2: 0, from the error handler, 0, from the error handler
form, exits: 200 200 200 | 500 The server has failed to answer; its log tells why.
int(0)
multipart, looks: 200 200 200 | 200 5: 0, 1, 1, 0/1
multipart, waits: 200 200 200 | 200 6: 0, 1, 1, 0/1
multipart, throws: 200 200 200 | 200 3: 0, from the error handler, from the error handler, from the error handler
multipart, exits: 200 200 200 | 500 The server has failed to answer; its log tells why.
int(0)
cookies, looks: 200 200 200 | 200 1: 0, 0, 0, 1/0
cookies, waits: 200 200 200 | 200 1: 0, 0, 0, 1/0
cookies, throws: 200 200 200 | 200 1: 0, 0, 0, from the error handler
cookies, exits: 200 200 200 | 500 The server has failed to answer; its log tells why.
int(0)