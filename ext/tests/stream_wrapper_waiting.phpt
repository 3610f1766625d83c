--TEST--
A stream wrapper of the program's may wait in stream_open() and dir_opendir() while other handlers open addresses, the same one included
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
class Slow
{
    public $context;
    public static array $goes = [];
    private string $text = '';
    private function waits(string $path): bool
    {
        parse_str((string) parse_url($path, PHP_URL_QUERY), $query);
        for (self::$goes[$query['by']] ??= false; !self::$goes[$query['by']];) {
            delay(0.002);
        }
        $this->text = $path;
        return true;
    }
    public function stream_open(string $path): bool { return $this->waits($path); }
    public function dir_opendir(string $path): bool { return $this->waits($path); }
    public function dir_readdir(): string|false { [$text, $this->text] = [$this->text, '']; return $text ?: false; }
    public function dir_closedir(): bool { return true; }
    public function stream_read(): string { [$text, $this->text] = [$this->text, '']; return $text; }
    public function stream_set_option(): bool { return false; }
    public function stream_eof(): bool { return $this->text === ''; }
    public function stream_stat(): array { return []; }
}
stream_wrapper_register('slow', Slow::class);
$addresses = ['x' => 'slow://a?by=x', 'y' => 'slow://a?by=y'];
$server->get('/read/{by}', fn (string $by) => Response::json(file_get_contents($addresses[$by])));
$server->get('/list/{by}', fn (string $by) => Response::json(scandir($addresses[$by])));
$server->get('/include/{by}', fn (string $by) => Response::json(include $addresses[$by]));
$server->get('/data', fn () => Response::json(file_get_contents('data:,url')));
// A stream that opens itself is still refused.
class Loop extends Slow
{
    public function stream_open(string $path): bool { delay(0.002); return fopen($path, 'r') !== false; }
}
stream_wrapper_register('loop', Loop::class);
$server->get('/loop', fn () => Response::json(@file_get_contents('loop://a')));
$server->get('/go/{by}', function (string $by) { Slow::$goes[$by] = true; return Response::text(''); });
$server->get('/waiting', fn () => Response::json(count(Slow::$goes)));
$server->get('/again', function () { Slow::$goes = []; return Response::text(''); });
PHP;
$server = new TestServer($program);
$open = function (string $how, array $bys, array $order) use ($server): void {
    $server->get('/again');
    $connections = [];
    foreach ($bys as $i => $by) {
        $connections[$i] = $server->connect();
        $connections[$i]->start('GET', "/$how/$by");
        for ($deadline = microtime(true) + 2; $server->get('/waiting')->body !== (string) count(array_unique(array_slice($bys, 0, $i + 1))) && microtime(true) < $deadline;) {
            usleep(2000);
        }
    }
    foreach ($order as $i) {
        $server->get("/go/$bys[$i]");
        echo "$how $bys[$i]: ", $connections[$i]->answer(), "\n";
    }
};
foreach (['read', 'list'] as $how) {
    // The same file concurrently; then one that ends before another that started later.
    $open($how, ['x', 'x'], [0, 1]);
    $open($how, ['x', 'y'], [0, 1]);
    $open($how, ['x'], [0]);
    $open($how, ['y'], [0]);
}
echo $server->get('/loop'), "\n";
// During an include PHP treats an opened stream as part of it, which must not come from a URL.
$server->get('/again');
[$x, $y] = [$server->connect(), $server->connect()];
foreach (['x' => $x, 'y' => $y] as $by => $connection) {
    $connection->start('GET', "/include/$by");
    while ($server->get('/waiting')->body !== ['x' => '1', 'y' => '2'][$by]) {
        usleep(2000);
    }
}
echo 'included: ', $server->get('/data');
foreach (['x' => $x, 'y' => $y] as $by => $connection) {
    $server->get("/go/$by");
    echo ' ', $connection->answer()->status, ' ', $server->get('/data');
}
echo "\n";
var_dump($server->stop());
echo preg_replace('/^\S+ /m', '', $server->logged('/PHP warning|error/'));
?>
--EXPECT--
read x: 200 "slow://a?by=x"
read x: 200 "slow://a?by=x"
read x: 200 "slow://a?by=x"
read y: 200 "slow://a?by=y"
read x: 200 "slow://a?by=x"
read y: 200 "slow://a?by=y"
list x: 200 ["slow://a?by=x"]
list x: 200 ["slow://a?by=x"]
list x: 200 ["slow://a?by=x"]
list y: 200 ["slow://a?by=y"]
list x: 200 ["slow://a?by=x"]
list y: 200 ["slow://a?by=y"]
200 false
included: 200 "url" 200 200 "url" 200 200 "url"
int(0)
