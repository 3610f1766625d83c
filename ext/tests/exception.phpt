--TEST--
An exception in a handler: 500 without details, one log line with class, message, place and causes; the worker lives
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/exception', function () {
    throw new RuntimeException('secret', 0,
        new LogicException('inner'));
});
$server->get('/error', fn () => nothing());
$server->get('/type', fn (Request $request) => (fn (int $r) => Response::accepted())($request));
$server->get('/odd', function () {
    throw new class extends Exception { protected $message = ['array']; protected $code = 'text'; };
});
PHP);
$pid = $server->get('/')->body;
foreach (['/exception', '/error', '/type', '/odd'] as $target) {
    $answer = $server->get($target);
    echo $answer->status, str_contains($answer->body, 'secret') ? ' leaks' : '', "\n";
}
var_dump($server->get('/')->body === $pid);
foreach (explode("\n", $server->logged('/server\.php:.*\(GET/', withRequest: true)) as $line) {
    echo preg_replace('/^.*?((Runtime|Type)?(Exception|Error))/', '$1', $line), "\n";
}
?>
--EXPECTF--
500
500
500
500
bool(true)
RuntimeException: secret, caused by LogicException: inner in server.php:4 in server.php:3 (GET /exception)
Error: Call to undefined function nothing() in server.php:6 (GET /error)
TypeError: {closure%S}(): Argument #1 ($r) must be of type int, Fermata\Request given, called in server.php on line 7 in server.php:7 (GET /type)
Exception@anonymous:  in server.php:9 (GET /odd)
