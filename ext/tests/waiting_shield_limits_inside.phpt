--TEST--
shield(): what is called inside of it, timeout() and Cancellation, ends its own waits
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
$server = new TestServer(<<<'PHP'
function ended(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $error) { return $error::class; }
}
$work = [
    'timeout' => fn () => shield(fn () => ended(fn () => timeout(0.01, fn () => delay(600)))),
    'all' => fn () => shield(fn () => ended(fn () => timeout(0.01, fn () => all(fn () => delay(600), fn () => 1)))),
    'fiber' => fn () => shield(function () {
        $fiber = new Fiber(fn () => Fiber::suspend(ended(fn () => timeout(0.01, fn () => delay(600)))));
        return $fiber->start();
    }),
    'cancellation' => fn () => shield(function () {
        $cancellation = new Fermata\Cancellation();
        $future = async(fn () => ended(fn () => shield(fn () => $cancellation->run(fn () => delay(600)))));
        delay(0.01);
        $cancellation->cancel();
        return await($future);
    }),
    'outside' => fn () => ended(fn () => timeout(0.01, fn () => shield(fn () => delay(0.05) ?? 'not ended'))),
    'inside and outside' => fn () => timeout(600, fn () => shield(fn () => timeout(600, fn () => 'in time'))),
];
$server->get('/{name}', fn (Request $request) => Response::text($work[rawurldecode($request->route('name'))]()));
PHP);
foreach (['timeout', 'all', 'fiber', 'cancellation', 'outside', 'inside%20and%20outside'] as $name) {
    echo $server->get("/$name")->body, "\n";
}
?>
--EXPECT--
Fermata\Exception\TimeoutException
Fermata\Exception\TimeoutException
Fermata\Exception\TimeoutException
Fermata\Exception\CancelledException
"not ended"
in time
