--TEST--
Forms, queries and cookies: names that PHP would store in one chain cost no time, at the top and in nested arrays, and too many of them are refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json([array_sum(array_map(fn ($value) => is_array($value) ? count($value) : 1, $r->forms())), count($r->files())]), bodyBytes: 4_000_000);
$server->get('/', fn (Request $r) => Response::json([count($r->queries()), count($r->cookies())]));
PHP, 'limits: new Limits(headerBytes: 1_000_000)');

// "Ez", "FY" and "G8" have the same hash in PHP, and so have all concatenations of equal numbers of them.
$strings = [''];
while (count($strings) < 50_000) {
    $strings = array_merge(...array_map(fn ($word) => ["{$word}Ez", "{$word}FY", "{$word}G8"], $strings));
}
$numbers = array_map(fn ($n) => $n << 20, range(1, 40_000));
$urlencoded = ['Content-Type' => 'application/x-www-form-urlencoded'];
$multipart = ['Content-Type' => 'multipart/form-data; boundary=x'];
$part = fn (string $name, string $more = '') => "--x\r\nContent-Disposition: form-data; name=\"$name\"$more\r\n\r\n1\r\n";
$ask = function (string $what, string $method, string $target, array $headers, string $body = '') use (&$server) {
    $start = hrtime(true);
    $answer = $server->request($method, $target, $headers, $body);
    $seconds = (hrtime(true) - $start) / 1e9;
    // Under Memcheck times are not checked.
    echo "$what: ", trim((string) $answer), $seconds < (SLOW ? WAIT_S : 10) ? '' : " took $seconds s", "\n";
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

// With raised limits, as some shops use.
$raised = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json(array_sum(array_map(fn ($value) => is_array($value) ? count($value) : 1, $r->forms()))), bodyBytes: 8_000_000);
$server->get('/', fn (Request $r) => Response::json(count($r->queries())));
PHP, ini: ['-dmax_input_vars=100000', '-dfermata.form_fields_max=100000', '-dfermata.body_memory_bytes_max=8M']);
$server = $raised;
$honest = array_map(fn ($n) => "name-$n", range(1, 40_000));
foreach (['top' => '%s', 'nested' => 'a[%s]', 'deep' => 'a[b][c][%s][d]', 'named anew' => 'a.b[%s][]', 'not closed' => 'a[%s'] as $how => $pattern) {
    foreach (['strings' => $strings, 'numbers' => $numbers, 'honest' => $honest] as $kind => $names) {
        $names = array_map(fn ($name) => sprintf($pattern, $name), $names);
        $ask("raised $how $kind", 'POST', '/', $urlencoded, implode('&', $names));
        $ask("raised $how $kind in parts", 'POST', '/', $multipart, implode('', array_map($part, $names)) . "--x--\r\n");
    }
}
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
raised top strings: 400 there are too many names that PHP stores in one place
raised top strings in parts: 400 there are too many names that PHP stores in one place
raised top numbers: 400 there are too many names that PHP stores in one place
raised top numbers in parts: 400 there are too many names that PHP stores in one place
raised top honest: 200 40000
raised top honest in parts: 200 40000
raised nested strings: 400 there are too many names that PHP stores in one place
raised nested strings in parts: 400 there are too many names that PHP stores in one place
raised nested numbers: 400 there are too many names that PHP stores in one place
raised nested numbers in parts: 400 there are too many names that PHP stores in one place
raised nested honest: 200 40000
raised nested honest in parts: 200 40000
raised deep strings: 400 there are too many names that PHP stores in one place
raised deep strings in parts: 400 there are too many names that PHP stores in one place
raised deep numbers: 400 there are too many names that PHP stores in one place
raised deep numbers in parts: 400 there are too many names that PHP stores in one place
raised deep honest: 200 1
raised deep honest in parts: 200 1
raised named anew strings: 400 there are too many names that PHP stores in one place
raised named anew strings in parts: 400 there are too many names that PHP stores in one place
raised named anew numbers: 400 there are too many names that PHP stores in one place
raised named anew numbers in parts: 400 there are too many names that PHP stores in one place
raised named anew honest: 200 40000
raised named anew honest in parts: 200 40000
raised not closed strings: 400 there are too many names that PHP stores in one place
raised not closed strings in parts: 400 there are too many names that PHP stores in one place
raised not closed numbers: 200 40000
raised not closed numbers in parts: 200 40000
raised not closed honest: 200 40000
raised not closed honest in parts: 200 40000
