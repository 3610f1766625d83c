--TEST--
Testing\Engine serves connections in the test's process and goes by the clock that it sets
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Channel, Hold, Request, Response, Server};
use Fermata\Testing\Engine;

function client(Engine $engine, string $request, mixed ...$from)
{
    [$client, $server] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($server, ...$from);
    fclose($server);
    stream_set_blocking($client, false);
    fwrite($client, $request);
    return $client;
}

$ticks = 0;
$server = new Server();
$server->get('/', fn (Request $request) => Response::text($request->remoteAddress() . ' ' . $request->remotePort()));
$server->get('/events', fn () => Hold::sse('news')->keepAlive(10));
$server->get('/later', function () {
    try {
        Fermata\delay(100);
        return Response::text('later');
    } finally {
        echo "ended\n";
    }
});
$server->get('/throws', fn () => throw new LogicException('of the handler'));
$server->every(60, function () use (&$ticks) {
    $ticks++;
});
$engine = new Engine($server);

$get = "GET %s HTTP/1.1\r\nHost: test\r\n\r\n";
$client = client($engine, sprintf($get, '/'));
var_dump(fread($client, 9999));
$engine->run();
echo substr(strstr(fread($client, 9999), "\r\n\r\n"), 4), "\n";
$client = client($engine, sprintf($get, '/'), '2001:db8::1', 99);
$engine->run();
echo substr(strstr(fread($client, 9999), "\r\n\r\n"), 4), "\n";

$events = client($engine, sprintf($get, '/events'));
$engine->run();
var_dump($engine->takeHold()['channels'], $engine->takeHold());
fread($events, 9999);
$id = Channel::get('news')->publish('Hello');
var_dump(fread($events, 9999));
$engine->run();
var_dump(str_contains(fread($events, 9999), "id: $id\ndata: Hello\n\n"));

$later = client($engine, sprintf($get, '/later'));
$engine->run();
for ($left = 99_000; $left > 0;) {
    $left -= $by = $engine->advance($left);
    assert($by > 0);
}
var_dump(fread($later, 9999), $ticks, substr_count(fread($events, 9999), ":"));
for ($left = 1_100; $left > 0;) {
    $left -= $engine->advance($left);
}
var_dump(str_ends_with(fread($later, 9999), "\r\n\r\nlater"));

client($engine, sprintf($get, '/throws'));
$engine->run();
var_dump($engine->takeException()->getMessage(), $engine->takeException(), str_contains($engine->log(), 'LogicException: of the handler'));

foreach ([
    fn () => new Engine(new Server()),
    fn () => $server->run(),
    fn () => $engine->connect(fopen('php://memory', 'r')),
    fn () => client($engine, '', 'nowhere'),
    fn () => $engine->advance(-1),
    fn () => (new Fiber($engine->run(...)))->start(),
    fn () => $engine->__construct($server),
] as $misuse) {
    try {
        $misuse();
        echo "nothing\n";
    } catch (Error $error) {
        echo get_class($error), ': ', $error->getMessage(), "\n";
    }
}
client($engine, sprintf($get, '/later'));
$engine->run();
$engine->stop();
$engine->stop();
try {
    $engine->run();
} catch (Error $error) {
    echo $error->getMessage(), "\n";
}

// The next engine starts without state, and stops with its object.
$server = new Server();
$server->get('/', fn () => Response::text((string) count(Channel::get('news')->history())));
$server->get('/later', function () {
    try {
        Fermata\delay(100);
    } finally {
        echo "ended\n";
    }
});
$engine = new Engine($server);
$client = client($engine, sprintf($get, '/'));
client($engine, sprintf($get, '/later'));
$engine->run();
echo substr(strstr(fread($client, 9999), "\r\n\r\n"), 4), "\n";
unset($engine);
echo "done\n";
?>
--EXPECT--
string(0) ""
127.0.0.1 50000
2001:db8::1 99
array(1) {
  [0]=>
  string(4) "news"
}
NULL
string(0) ""
bool(true)
string(0) ""
int(1)
int(10)
ended
bool(true)
string(14) "of the handler"
NULL
bool(true)
Fermata\Exception\MisuseError: another server runs in this process for a test; stop that one first
Fermata\Exception\MisuseError: run() was called; routes are registered before it, and it is called once
Fermata\Exception\MisuseError: the stream is no socket; use one of stream_socket_pair()
Fermata\Exception\MisuseError: nowhere is no IP address
Fermata\Exception\MisuseError: the clock is set forward by 0 milliseconds or more, not -1
Fermata\Exception\MisuseError: the test runs the server, outside of handlers and Fibers
Fermata\Exception\MisuseError: the object is already constructed; create a new one
ended
the server was stopped
ended
0
done
