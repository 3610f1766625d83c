--TEST--
Settings: environment beats argument, argument beats INI
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = '$server->post("/", fn (Request $r) => Response::text((string) strlen($r->body())));';
$ini = ['-dfermata.body_bytes_max=10'];
$body = str_repeat('x', 15);
echo (new TestServer($code, 'workers: 1', $ini))->request('POST', '/', [], $body)->status, "\n";
echo (new TestServer($code, 'workers: 1, limits: new Limits(bodyBytes: 20)', $ini))->request('POST', '/', [], $body)->status, "\n";
echo (new TestServer($code, 'workers: 1, limits: new Limits(bodyBytes: 20)', $ini, ['FERMATA_BODY_BYTES_MAX' => '12']))
    ->request('POST', '/', [], $body)->status, "\n";
?>
--EXPECT--
413
200
413
