--TEST--
The pieces of a Response::stream() may wait; errors cut it, and a client that leaves ends it
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/now', fn () => Response::text('now'));
$server->get('/delayed', fn () => Response::stream(function () {
    foreach (['one', 'two', 'three'] as $piece) {
        delay(0.005);
        yield "$piece ";
        delay(0);
    }
}));
$server->get('/tasks', fn (Request $request) => Response::stream((function () use ($request) {
    $next = async(fn () => delay(0.002) ?? 'a');
    while (($piece = await($next)) !== 'e') {
        $next = async(function () use ($piece) { delay(0.002); return chr(ord($piece) + 1); });
        yield $piece . $request->query('x');
    }
})()));
$queue = new Queue(2);
$server->get('/queue/{what}', fn (Request $request) => Response::stream(function () use ($request, $queue) {
    if ($request->route('what') === 'push') {
        foreach (['a', 'b', 'c', 'd'] as $item) { $queue->push($item); yield "pushed $item "; }
        $queue->close();
    } else {
        try { for (;;) { yield 'popped ' . $queue->pop() . ' '; } } catch (Fermata\Exception\QueueClosedException) {}
    }
}));
$server->get('/fails/{how}', fn (Request $request) => Response::stream(function () use ($request) {
    yield 'first ';
    delay(0.002);
    yield 'second ';
    delay(0.002);
    match ($request->route('how')) {
        'throw' => throw new RuntimeException('dried up'), // line 38
        'type' => yield 42,
        'exit' => exit(),
        'timeout' => timeout(0.001, fn () => delay(60)),
    };
}));
$server->get('/left/{how}', fn (Request $request) => Response::stream(function () use ($request) {
    try {
        yield 'begun';
        echo "begun\n";
        match ($request->route('how')) {
            'delay' => delay(60),
            'shield' => shield(fn () => delay(0.05)),
            'task' => await(async(fn () => delay(60))),
        };
        echo "went on\n";
        yield 'more';
    } catch (Fermata\Exception\ClientGoneException $e) {
        echo $e::class, "\n";
        throw $e;
    } finally {
        echo "finally {$request->route('how')}\n";
    }
}));
$server->get('/cleans', fn () => Response::stream(function () {
    try {
        for (;;) { yield str_repeat('x', 100_000); echo "."; }
    } finally {
        echo "\ncleaned\n";
    }
}));
PHP);
$until = function (string $text) use ($server) {
    $deadline = microtime(true) + WAIT_S;
    while (!str_contains($server->output(), $text)) {
        if (microtime(true) > $deadline) {
            throw new Exception("no $text in " . $server->output() . $server->log());
        }
        usleep(1000);
    }
};
/** Returns the chunks of a started response, and how it ends. */
function chunks(Connection $c): string
{
    $body = '';
    try {
        while (($bytes = hexdec($c->until("\r\n"))) > 0) {
            $body .= $c->take($bytes);
            $c->take(2);
        }
        $c->take(2);
        return $body . '| whole';
    } catch (Exception) {
        return $body . '| cut';
    }
}
function ask(Connection $c, string $target, string $version = '1.1'): string
{
    $c->send("GET $target HTTP/$version\r\nHost: a\r\n\r\n");
    return $c->head()[0] . ' ' . chunks($c);
}
$c = $server->connect();
foreach (['/delayed', '/tasks?x=y', '/delayed'] as $target) {
    echo "$target ", ask($c, $target), "\n";
}
$pop = $server->connect();
$pop->send("GET /queue/pop HTTP/1.1\r\nHost: a\r\n\r\n");
usleep(5000);
echo ask($c, '/queue/push'), "\n";
$pop->head();
echo chunks($pop), "\n";
foreach (['throw', 'type', 'exit', 'timeout'] as $how) {
    echo "$how ", ask($server->connect(), "/fails/$how"), "\n";
}
foreach (['delay', 'shield', 'task'] as $how) {
    $c = $server->connect();
    $c->send("GET /left/$how HTTP/1.1\r\nHost: a\r\n\r\n");
    $c->until('begun');
    usleep(5000);
    $c->cut();
    $until("finally $how");
}
$c = $server->connect();
$c->send("GET /cleans HTTP/1.1\r\nHost: a\r\n\r\n");
$c->take(1000);
$c->cut();
$until('cleaned');
echo $server->get('/now')->body, "\n";

// A handler that waits in a stream is ended when the server stops.
$c = $server->connect();
$c->send("GET /left/delay HTTP/1.1\r\nHost: a\r\n\r\n");
$c->until('begun');
usleep(5000);
$before = strlen($server->output());
$server->signal(15);
usleep(1000);
$c->cut();
var_dump($server->ended());
echo substr($server->output(), $before);
echo "-- output\n", preg_replace('/^\.*$\n/m', '', substr($server->output(), 0, $before)), "-- log\n", $server->logged('/ error /'), "\n";
?>
--EXPECTF--
/delayed 200 one two three | whole
/tasks?x=y 200 aybycydy| whole
/delayed 200 one two three | whole
200 pushed a pushed b pushed c pushed d | whole
popped a popped b popped c popped d | whole
throw 200 first second | cut
type 200 first second | cut
exit 200 first second | cut
timeout 200 first second | cut
now
int(0)
Fermata\Exception\ClientGoneException
finally delay
-- output
begun
Fermata\Exception\ClientGoneException
finally delay
begun
went on
finally shield
begun
Fermata\Exception\ClientGoneException
finally task
cleaned
begun
-- log
%Sstream: RuntimeException: dried up in server.php:%d
%Sstream: TypeError: a stream must yield strings, int yielded%S
%Sstream: exit() called while a stream was made; return to end it in server.php:%d
%Sstream: Fermata\Exception\TimeoutException: the time given to timeout() is over in server.php:%d
