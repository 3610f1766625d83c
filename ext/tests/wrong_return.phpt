--TEST--
A handler that returns anything but a Response or a Hold: 500, and the log names the type and the handler's place
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/null', function () {});
$server->get('/int', fn () => 1);
$server->get('/array', fn () => ['a' => 1]);
$server->get('/object', fn () => new ArrayObject());
$server->get('/request', fn (Request $r) => $r);
$server->get('/generator', function () { yield Response::accepted(); });
$server->get('/declared', fn (): Response => 'text');
PHP);
foreach (['null', 'int', 'array', 'object', 'request', 'generator', 'declared'] as $name) {
    echo $server->get("/$name")->status, "\n";
}
foreach (explode("\n", $server->logged('/TypeError/')) as $line) {
    echo strstr($line, 'TypeError'), "\n";
}
?>
--EXPECTF--
500
500
500
500
500
500
500
TypeError: the handler must return Fermata\Response or Fermata\Hold, null returned in server.php:1
TypeError: the handler must return Fermata\Response or Fermata\Hold, int returned in server.php:2
TypeError: the handler must return Fermata\Response or Fermata\Hold, array returned in server.php:3
TypeError: the handler must return Fermata\Response or Fermata\Hold, ArrayObject returned in server.php:4
TypeError: the handler must return Fermata\Response or Fermata\Hold, Fermata\Request returned in server.php:5
TypeError: the handler must return Fermata\Response or Fermata\Hold, Generator returned in server.php:6
TypeError: {closure%S}(): Return value must be of type Fermata\Response, string returned in server.php:7
