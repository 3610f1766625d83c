--TEST--
A stream of a wrapper of the program's that waits in stream_read(): another handler that reads it meanwhile is refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
class Slow
{
    public $context;
    public static bool $waits = false, $goes = true;
    public static string $written = '';
    public function stream_open(string $path): bool { return true; }
    public function stream_read(int $count): string
    {
        $letter = self::$goes ? 'o' : 'w';
        for (self::$waits = true; !self::$goes;) {
            delay(0.002);
        }
        return str_repeat($letter, $count);
    }
    public function stream_write(string $text): int { self::$written .= $text; return strlen($text); }
    public function stream_eof(): bool { return false; }
}
stream_wrapper_register('slow', Slow::class);
$shared = fopen('slow://a', 'r+');
$server->get('/wait', function () use ($shared) {
    Slow::$goes = false;
    return Response::text(count_chars(fread($shared, 8192), 3));
});
$server->get('/waiting', fn () => Response::json(Slow::$waits));
$server->get('/other', function () use ($shared) {
    Slow::$goes = true;
    try {
        // Longer than PHP's buffer, which is therefore moved.
        return Response::text('read ' . strlen(stream_get_line($shared, 1 << 20, "\n")));
    } catch (Fermata\Exception\MisuseError $e) {
        return Response::text($e->getMessage());
    }
});
$server->get('/write', fn () => Response::json([fwrite($shared, 'written'), Slow::$written]));
PHP;
$server = new TestServer($program);
$connection = $server->connect();
$connection->start('GET', '/wait');
for ($deadline = microtime(true) + WAIT_S; $server->get('/waiting')->body !== 'true' && microtime(true) < $deadline;) {
    usleep(2000);
}
echo 'write: ', $server->get('/write'), "\n";
echo 'other: ', $server->get('/other'), "\n";
echo 'waiting: ', $connection->answer(), "\n";
echo 'then: ', $server->get('/other'), "\n";
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/PHP warning|error/'));
?>
--EXPECT--
write: 200 [7,"written"]
other: 200 another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
waiting: 200 w
then: 200 read 1048576
int(0)
