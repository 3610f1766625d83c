--TEST--
A Fiber of the program's that is suspended inside a call of ours goes on, or is destroyed, after its handler, after its worker and after its engine
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
final class Kept
{
    public static array $fibers = [];
    public static array $values = [];
}
function goOn(string $when): void
{
    foreach (Kept::$fibers as $name => $fiber) {
        if (str_starts_with($name, $when)) {
            try {
                $fiber->resume();
                $fiber->isTerminated() || print("$name has not ended\n");
            } catch (Fermata\Exception\FermataException) {
            } catch (Throwable $error) {
                echo "$name: ", $error::class, ' ', $error->getMessage(), "\n";
            }
            unset(Kept::$fibers[$name]);
        }
    }
}
function inside(): array
{
    $suspend = function () { Fiber::suspend(); return 1; };
    $pool = Kept::$values[] = new Fermata\Pool(fn () => new stdClass, 1);
    $mutex = Kept::$values[] = new Fermata\Sync\Mutex;
    return [
        'synchronized' => fn () => $mutex->synchronized($suspend),
        'semaphore' => fn () => (new Fermata\Sync\Semaphore(1))->run($suspend),
        'locked' => function () use ($suspend) { $mutex = new Fermata\Sync\Mutex; $mutex->lock(); $suspend(); $mutex->unlock(); },
        'pool' => fn () => $pool->use($suspend),
        'timeout' => fn () => Fermata\timeout(60, $suspend),
        'shield' => fn () => Fermata\shield($suspend),
        'cancellation' => fn () => (new Fermata\Cancellation)->run($suspend),
        'nested' => fn () => Fermata\timeout(60, fn () => Fermata\shield(fn () => (new Fermata\Cancellation)->run($suspend))),
        'output' => function () use ($suspend) { ob_start(); $suspend(); @ob_end_clean(); },
        'error handler' => function () use ($suspend) { set_error_handler($suspend); $x = [][1]; },
        'parsing' => function () use ($suspend) { set_error_handler($suspend); parse_str(http_build_query(array_fill(0, 2000, 'x')), $all); },
    ];
}
PHP;
$server = new TestServer($code . <<<'PHP'

foreach (['handler', 'worker', 'never'] as $when) {
    foreach (inside() as $name => $call) {
        $server->get("/$when/" . strtr($name, ' ', '-'), function () use ($call, $when, $name) {
            $fiber = Kept::$fibers["$when $name"] = new Fiber($call);
            delay(0.0001);
            $fiber->start();
            return Response::text('x');
        });
    }
}
$server->get('/go-on', function () { goOn('handler'); return Response::text('x'); });
$server->get('/names', fn () => Response::text(json_encode(array_keys(inside()))));
register_shutdown_function(function () { goOn('worker'); });
PHP);
foreach (['handler', 'worker', 'never'] as $when) {
    foreach (json_decode($server->get('/names')->body) as $name) {
        $answer = (string) $server->get("/$when/" . strtr($name, ' ', '-'));
        if ($answer !== '200 x') {
            echo "$when, $name: $answer\n";
        }
    }
    if ($when === 'handler') {
        echo $server->get('/go-on'), "\n";
    }
}
var_dump($server->stop());
echo $server->output(), $server->logged('~ended pid.*signal|exit code [^0]~');

// The same cases in a stopped test engine.
eval(str_replace('<?php', '', $code));
$server = new Fermata\Server();
foreach (inside() as $name => $call) {
    $server->get('/' . strtr($name, ' ', '-'), function () use ($call, $name) {
        $fiber = Kept::$fibers["engine $name"] = new Fiber($call);
        $fiber->start();
        return Fermata\Response::text('x');
    });
}
$engine = new Fermata\Testing\Engine($server);
foreach (array_keys(inside()) as $i => $name) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fclose($end);
    fwrite($client, 'GET /' . strtr($name, ' ', '-') . " HTTP/1.1\r\nHost: test\r\n\r\n");
    $engine->run();
    str_contains(fread($client, 1000), '200 OK') || print("$name in the engine: no answer\n");
}
$engine->stop();
goOn('engine');
echo count(Kept::$fibers), "\n";
?>
--EXPECT--
200 x
int(0)
0
