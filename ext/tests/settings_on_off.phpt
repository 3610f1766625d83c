--TEST--
Settings: on and off of php.ini are known as PHP reads them, without quotes
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

/* PHP's INI parser turns `on` into `1`, and `off` into an empty string. */
$code = '$server->get("/", fn () => Response::text(str_repeat("long ", 2_000)));';
foreach (['on', 'off', '"on"', '"off"'] as $value) {
    $answer = (new TestServer($code, 'workers: 1', ["-dfermata.compression=$value"]))
        ->request('GET', '/', ['Accept-Encoding' => 'gzip']);
    echo "$value: ", $answer->header('content-encoding') ?? 'plain', "\n";
}
?>
--EXPECT--
on: gzip
off: plain
"on": gzip
"off": plain
