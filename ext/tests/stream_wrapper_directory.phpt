--TEST--
A directory of a wrapper of the program's that waits in dir_readdir(), and is closed by another handler meanwhile
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
class Slow
{
    public $context;
    public static bool $waits = false, $goes = false;
    public function dir_opendir(string $path): bool { return true; }
    public function dir_readdir(): string
    {
        for (self::$waits = true; !self::$goes;) {
            delay(0.002);
        }
        return 'name';
    }
    public function dir_closedir(): bool { return true; }
}
stream_wrapper_register('slow', Slow::class);
$shared = opendir('slow://a');
$other = dir('slow://b');
$server->get('/readdir', fn () => Response::json(readdir($shared)));
$server->get('/read', fn () => Response::json($other->read()));
$server->get('/waiting', fn () => Response::json(Slow::$waits));
$close = function (callable $close) {
    try {
        $close();
    } catch (Fermata\Exception\MisuseError $e) {
        $refused = strtok($e->getMessage(), ';');
    }
    // Reuses the memory that was freed.
    $taken = [];
    for ($i = 0; $i < 50; $i++) {
        $taken[] = fopen('php://memory', 'r+');
    }
    Slow::$goes = true;
    delay(0.05);
    [Slow::$goes, Slow::$waits] = [false, false];
    return Response::json([$refused ?? 'closed', array_sum(array_map('ftell', $taken))]);
};
$server->get('/close/readdir', fn () => $close(fn () => closedir($shared)));
$server->get('/close/read', fn () => $close(fn () => $other->close()));
PHP;
$server = new TestServer($program);
foreach (['readdir', 'read'] as $way) {
    $connection = $server->connect();
    $connection->start('GET', "/$way");
    for ($deadline = microtime(true) + WAIT_S; $server->get('/waiting')->body !== 'true' && microtime(true) < $deadline;) {
        usleep(2000);
    }
    echo "$way: ", $server->get("/close/$way"), ' ', $connection->answer(), "\n";
    echo 'then: ', $server->get("/close/$way"), "\n";
}
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/PHP warning|error/'));
?>
--EXPECT--
readdir: 200 ["another handler or task waits for this stream",0] 200 "name"
then: 200 ["closed",0]
read: 200 ["another handler or task waits for this stream",0] 200 "name"
then: 200 ["closed",0]
int(0)
