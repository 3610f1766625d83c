--TEST--
A task that others of its request wait for begins although they have the request's share of the fibers
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$wait = function (Closure ...$work): Response {
    $tasks = array_map(fn (Closure $one) => async($one), $work);
    try {
        return Response::text(count(timeout(5, fn () => all(...$tasks))) . ' ended');
    } catch (Throwable $e) {
        return Response::text($e::class);
    }
};
// 20 takers occupy 20 of 32 fibers, which exceeds half of the free ones.
$server->get('/queue', function () use ($wait): Response {
    $queue = new Queue(1);
    $push = function () use ($queue): void {
        for ($i = 0; $i < 20; $i++) {
            $queue->push($i);
        }
    };
    return $wait(...array_fill(0, 20, fn () => $queue->pop()), ...[$push]);
});
$server->get('/semaphore', function () use ($wait): Response {
    $semaphore = new Semaphore(1);
    $semaphore->acquire();
    $release = fn () => $semaphore->release();
    return $wait(...array_fill(0, 20, fn () => $semaphore->run(fn () => delay(0.001))), ...[$release]);
});
PHP, ini: ['-dfermata.fibers_max=32']);
foreach (['/queue', '/semaphore', '/queue'] as $path) {
    echo "$path: ", $server->get($path), "\n";
}
var_dump($server->stop());
?>
--EXPECT--
/queue: 200 21 ended
/semaphore: 200 21 ended
/queue: 200 21 ended
int(0)
