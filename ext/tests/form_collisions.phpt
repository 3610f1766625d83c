--TEST--
Forms, queries and cookies: names that PHP would store in one chain cost no time, at the top and in nested arrays
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json([array_sum(array_map(fn ($value) => is_array($value) ? count($value) : 1, $r->forms())), count($r->files())]), bodyBytes: 4_000_000);
$server->get('/', fn (Request $r) => Response::json([count($r->queries()), count($r->cookies())]));
PHP, 'limits: new Limits(headerBytes: 1_000_000)');

// "Ez", "FY" and "G8" have one hash of PHP's string function, and so have all words of them.
$strings = [''];
while (count($strings) < 19_683) {
    $strings = array_merge(...array_map(fn ($word) => ["{$word}Ez", "{$word}FY", "{$word}G8"], $strings));
}
$numbers = array_map(fn ($n) => $n << 20, range(1, 40_000));
$urlencoded = ['Content-Type' => 'application/x-www-form-urlencoded'];
$multipart = ['Content-Type' => 'multipart/form-data; boundary=x'];
$part = fn (string $name, string $more = '') => "--x\r\nContent-Disposition: form-data; name=\"$name\"$more\r\n\r\n1\r\n";
$ask = function (string $what, string $method, string $target, array $headers, string $body = '') use ($server) {
    $start = hrtime(true);
    $answer = $server->request($method, $target, $headers, $body);
    $seconds = (hrtime(true) - $start) / 1e9;
    echo "$what: ", trim((string) $answer), $seconds < 10 ? '' : " took $seconds s", "\n";
};
foreach (['top' => '%s', 'nested' => 'a[%s]', 'deep' => 'a[b][c][%s][d]', 'named anew' => 'a.b[ %s]'] as $how => $pattern) {
    foreach (['strings' => $strings, 'numbers' => $numbers] as $kind => $names) {
        $names = array_map(fn ($name) => sprintf($pattern, $name), $names);
        $ask("$how $kind", 'POST', '/', $urlencoded, implode('&', $names));
        $ask("$how $kind in parts", 'POST', '/', $multipart, implode('', array_map($part, array_slice($names, 0, 1000))) . "--x--\r\n");
    }
}
$ask('too many parts', 'POST', '/', $multipart, implode('', array_map($part, array_slice($strings, 0, 1001))) . "--x--\r\n");
$ask('query and cookies', 'GET', '/?' . implode('&', array_slice($strings, 0, 300)), ['Cookie' => implode('; ', array_map(fn ($name) => "$name=1", array_slice($strings, 0, 5000)))]);
$ask('levels', 'POST', '/', $urlencoded, implode('&', array_map(fn ($n) => "a$n" . str_repeat('[x]', 5000), range(1, 200))));
?>
--EXPECT--
top strings: 200 [1000,0]
top strings in parts: 200 [1000,0]
top numbers: 200 [1000,0]
top numbers in parts: 200 [1000,0]
nested strings: 200 [1000,0]
nested strings in parts: 200 [1000,0]
nested numbers: 200 [1000,0]
nested numbers in parts: 200 [1000,0]
deep strings: 200 [1,0]
deep strings in parts: 200 [1,0]
deep numbers: 200 [1,0]
deep numbers in parts: 200 [1,0]
named anew strings: 200 [1000,0]
named anew strings in parts: 200 [1000,0]
named anew numbers: 200 [1000,0]
named anew numbers in parts: 200 [1000,0]
too many parts: 413 The form has more than 1000 fields (form_fields_max).
query and cookies: 200 [300,1000]
levels: 200 [0,0]
