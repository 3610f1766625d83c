--TEST--
A wait in a callback of a function that is not known to be re-entrant holds the worker, or is refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Sleep, Fermata\Hook::StreamSelect);
class Calls implements JsonSerializable
{
    public function __construct(private Closure $by) {}
    public function jsonSerialize(): mixed { return ($this->by)(); }
}
class Filter extends php_user_filter
{
    public static mixed $by = null;
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        while ($bucket = stream_bucket_make_writeable($in)) {
            (self::$by)();
            $consumed += $bucket->datalen;
            stream_bucket_append($out, $bucket);
        }
        return PSFS_PASS_ON;
    }
}
stream_filter_register('slow', Filter::class);
$seen = false;
$waits = [
    'delay' => fn () => delay(0.05),
    'seen' => function () use (&$seen) { for ($left = 1000; !$seen && $left; $left--) { delay(0.002); } return $seen; },
    'yield' => fn () => delay(0),
    'usleep' => fn () => usleep(50_000),
    'select' => function () {
        [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        [$read, $write, $except] = [[$a], [], []];
        return stream_select($read, $write, $except, 0, 50_000);
    },
    'await' => fn () => await(async(fn () => 1)),
    'all' => fn () => all(fn () => 1, fn () => 2),
    'queue' => fn () => (new Fermata\Sync\Queue(1))->pop(),
    'file' => fn () => strlen(Fermata\File::read(__FILE__)) > 0,
    'publish' => fn () => is_string(Channel::get('a')->publish('b')),
    'timeout' => fn () => timeout(0.02, fn () => delay(1)),
    'long' => fn () => delay(30),
];
$calls = [
    'json_encode' => fn (Closure $by) => json_decode(json_encode(new Calls($by))),
    'filter' => function (Closure $by) {
        $result = null;
        $failed = null;
        Filter::$by = function () use ($by, &$result, &$failed) {
            try {
                $result = $by();
            } catch (Throwable $e) {
                $failed = $e;
            }
        };
        $file = fopen('php://memory', 'w+');
        stream_filter_append($file, 'slow', STREAM_FILTER_WRITE);
        fwrite($file, 'abc');
        Filter::$by = fn () => 0;
        return $failed ? throw $failed : $result;
    },
    'heap' => function (Closure $by) {
        $heap = new class extends SplMinHeap {
            public ?Closure $by = null;
            public mixed $result = null;
            protected function compare($a, $b): int { $this->result = ($this->by)(); return parent::compare($a, $b); }
        };
        $heap->by = $by;
        $heap->insert(1);
        $heap->insert(2);
        return $heap->result;
    },
    'array_map' => fn (Closure $by) => array_map($by, [1])[0],
    'in Fiber' => function (Closure $by) {
        $fiber = new \Fiber(fn () => json_encode(new Calls($by)));
        $fiber->start();
        return json_decode($fiber->getReturn());
    },
    'in array_map' => fn (Closure $by) => array_map(fn () => json_decode(json_encode(new Calls(fn () => array_map($by, [1])[0]))), [1])[0],
    'internal' => fn (Closure $by) => array_map('usleep', [1000])[0],
];
$running = 0;
$server->get('/{call}/{wait}', function (string $call, string $wait) use ($calls, $waits, &$running, &$seen) {
    $seen = false;
    $running++;
    try {
        $answer = json_encode($calls[urldecode($call)]($waits[$wait]));
    } catch (Throwable $e) {
        $answer = $e::class . ': ' . $e->getMessage();
    }
    $running--;
    return Response::text($answer);
});
$server->get('/met', function () use (&$running, &$seen) { $seen = true; return Response::json($running > 0); });
PHP;
$try = function (array $ini, array $pairs) use ($program): void {
    $server = new TestServer($program, ini: $ini);
    foreach ($pairs as [$call, $wait]) {
        $connection = $server->connect();
        $connection->start('GET', '/' . rawurlencode($call) . "/$wait");
        // The request may arrive before the handler has started.
        for ($left = 200, $met = 'false'; $left && $met === 'false'; $left = $wait === 'seen' ? $left - 1 : 0) {
            usleep(10_000);
            $met = $server->get('/met')->body;
        }
        echo "$call $wait: ", $connection->answer()->body, $met === 'true' ? ', others run' : '', "\n";
    }
    var_dump($server->stop());
    echo preg_replace(['/^\S+ /m', '#/\S+/(\w+\.php)#', '/:\d+ /'], ['', '$1', ':LINE '], $server->logged('/is held|PHP warning|error/')), "\n";
};
echo "hold\n";
$names = ['delay', 'yield', 'usleep', 'select', 'await', 'all', 'queue', 'file', 'publish', 'timeout'];
$try([], [...array_map(fn ($name) => ['json_encode', $name], $names), ['filter', 'delay'], ['heap', 'delay'], ['filter', 'await'],
    ['in Fiber', 'delay'], ['in array_map', 'usleep'], ['array_map', 'seen'], ['internal', 'usleep']]);
echo "throw\n";
$try(['-dfermata.callback_wait=throw'], [['json_encode', 'delay'], ['json_encode', 'yield'], ['json_encode', 'usleep'], ['filter', 'delay'],
    ['heap', 'select'], ['array_map', 'seen']]);
echo "bound\n";
$try(['-dfermata.callback_wait_ms_max=20'], [['json_encode', 'long'], ['json_encode', 'usleep'], ['json_encode', 'select']]);
?>
--EXPECT--
hold
json_encode delay: null
json_encode yield: null
json_encode usleep: null
json_encode select: 0
json_encode await: Fermata\Exception\MisuseError: PHP cannot wait in code that json_encode() calls: another handler would meet PHP's state in the middle of the call; wait before or after it
json_encode all: Fermata\Exception\MisuseError: PHP cannot wait in code that json_encode() calls: another handler would meet PHP's state in the middle of the call; wait before or after it
json_encode queue: Fermata\Exception\MisuseError: PHP cannot wait in code that json_encode() calls: another handler would meet PHP's state in the middle of the call; wait before or after it
json_encode file: true
json_encode publish: true
json_encode timeout: Fermata\Exception\TimeoutException: the time given to timeout() is over
filter delay: null
heap delay: null
filter await: Fermata\Exception\MisuseError: PHP cannot wait in a stream filter: another handler would meet PHP's state in the middle of the call; wait before or after it
in Fiber delay: null
in array_map usleep: null
array_map seen: true, others run
internal usleep: null
int(0)
warning [worker 0] the worker is held while code that json_encode() calls waits, because PHP could mix up its state with that of another handler; wait before or after the call (callback_wait) in server.php:23
warning [worker 0] the worker is held while a stream filter waits, because PHP could mix up its state with that of another handler; wait before or after the call (callback_wait) in server.php:23
warning [worker 0] the worker is held while code that SplHeap::insert() calls waits, because PHP could mix up its state with that of another handler; wait before or after the call (callback_wait) in server.php:23
throw
json_encode delay: Fermata\Exception\MisuseError: PHP cannot wait in code that json_encode() calls (callback_wait=throw); wait before or after the call
json_encode yield: null
json_encode usleep: Fermata\Exception\MisuseError: PHP cannot wait in code that json_encode() calls (callback_wait=throw); wait before or after the call
filter delay: Fermata\Exception\MisuseError: PHP cannot wait in a stream filter (callback_wait=throw); wait before or after the call
heap select: Fermata\Exception\MisuseError: PHP cannot wait in code that SplHeap::insert() calls (callback_wait=throw); wait before or after the call
array_map seen: true, others run
int(0)

bound
json_encode long: Fermata\Exception\MisuseError: waits in code that json_encode() calls have held the worker for 20 ms (callback_wait_ms_max); wait before or after the call
json_encode usleep: Fermata\Exception\MisuseError: waits in code that json_encode() calls have held the worker for 20 ms (callback_wait_ms_max); wait before or after the call
json_encode select: Fermata\Exception\MisuseError: waits in code that json_encode() calls have held the worker for 20 ms (callback_wait_ms_max); wait before or after the call
int(0)
warning [worker 0] the worker is held while code that json_encode() calls waits, because PHP could mix up its state with that of another handler; wait before or after the call (callback_wait) in server.php:38
