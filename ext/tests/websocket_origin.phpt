--TEST--
Pages of other hosts are refused unless the options name them
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->websocket('/same', message: fn () => null);
$server->websocket('/listed', message: fn () => null, options: new Options(origins: ['https://example.org', 'http://localhost:3000']));
$server->websocket('/any', message: fn () => null, options: new Options(origins: ['*']));
$server->websocket('/none', message: fn () => null, options: new Options(origins: []));
PHP);
foreach ([null, 'http://test', 'https://example.org', 'http://localhost:3000', 'http://evil.example', 'null'] as $origin) {
    echo str_pad($origin ?? '(no browser)', 22);
    foreach (['/same', '/listed', '/any', '/none'] as $target) {
        echo ' ', $server->socket($target, $origin === null ? [] : ['Origin' => $origin])->answer->status;
    }
    echo "\n";
}
?>
--EXPECT--
(no browser)           101 101 101 101
http://test            101 403 101 403
https://example.org    403 101 101 403
http://localhost:3000  403 101 101 403
http://evil.example    403 403 101 403
null                   403 403 101 403
