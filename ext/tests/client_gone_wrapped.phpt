--TEST--
A client that leaves inside a library that wraps exceptions is no error: the log stays silent
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$begun = $left = 0;
$wrap = function () use (&$begun, &$left) {
    $begun++;
    try {
        delay(60);
    } catch (Throwable $e) {
        $left++;
        throw new DomainException('the library failed', 0, new RuntimeException('the connection failed', 0, $e));
    }
};
final class Late { public function __construct(private $wrap) {} public function __destruct() { throw new LogicException('while it was released'); } }
$server->get('/wrapped', $wrap);
$server->get('/task', fn () => await(async($wrap)));
$server->get('/released', function () use ($wrap) { $late = new Late($wrap); $wrap(); });
$server->get('/failed', fn () => throw new DomainException('a failure'));
$server->get('/begun', function () use (&$begun) { return Response::text((string) $begun); });
$server->get('/left', function () use (&$left) { return Response::text((string) $left); });
PHP);
foreach (['/wrapped', '/task', '/released'] as $at => $target) {
    $client = $server->connect();
    $client->start('GET', $target);
    while ($server->get('/begun')->body !== (string) ($at + 1)) { usleep(1000); }
    $client->cut();
    while ($server->get('/left')->body !== (string) ($at + 1)) { usleep(1000); }
}
echo $server->get('/failed'), "\n";
var_dump($server->stop());
echo $server->logged('/error/');
?>
--EXPECTF--
500 The server has failed to answer; its log tells why.

int(0)
%s error %sDomainException: a failure %s
