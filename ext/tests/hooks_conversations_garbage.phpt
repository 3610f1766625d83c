--TEST--
What a destructor asks over a shared connection while garbage is collected is nobody else's reply
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
use Fermata\Exception\TimeoutException;

Fermata\Runtime::hook(...Fermata\Hook::cases());
final class Lock
{
    public static $mine, $peer;
    public static int $ended = 0;
    public $itself;

    public function __construct() { $this->itself = $this; }
    public function __destruct()
    {
        fwrite(self::$mine, "unlock\n");
        fgets(self::$mine);
        self::$ended++;
    }
}
$server->get('/begin', function () {
    [Lock::$mine, Lock::$peer] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $lock = new Lock();
    try { timeout(0.001, fn () => delay(60)); } catch (TimeoutException) { return Response::text('ended'); }
});
$server->get('/next', function () {
    while (!Lock::$ended) { delay(0.01); }
    @fwrite(Lock::$peer, "reply to unlock\n");
    $written = @fwrite(Lock::$mine, "get\n");
    return Response::text(var_export($written, true) . ' ' . var_export(@fgets(Lock::$mine), true));
});
PHP);
echo $server->get('/begin')->body, "\n", $server->get('/next')->body, "\n";
var_dump($server->stop());
echo $server->logged('/shut down/');
?>
--EXPECTREGEX--
ended
false false
int\(0\)
.*the connection to descriptor \d+ was shut down: a wait of a destructor was ended in .*
