--TEST--
Response::stream() takes iterables and callables, and tells what it cannot send
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Response;
use Fermata\Exception\MisuseError;

$response = Response::stream(['a', 'b'], 201, ['X-A' => '1'], length: 2);
var_dump($response->status(), $response->body(), $response->header('content-type'), $response->header('x-a'));
$typed = Response::stream((fn() => yield 'a')(), headers: ['Content-Type' => 'text/csv']);
var_dump($typed->header('Content-Type'), $typed->withHeader('X-B', '2')->header('x-b'));

// The callable is not called without a client, and is freed with the response.
$destroyed = new class { public function __destruct() { echo "freed\n"; } };
$lazy = Response::stream(function () use ($destroyed) { echo "never\n"; yield 'x'; });
unset($destroyed, $lazy);

foreach ([
    fn() => Response::stream(1),
    fn() => Response::stream('no_such_function'),
    fn() => Response::stream([], 99),
    fn() => Response::stream([], length: -1),
    fn() => Response::stream([], headers: ['Content-Length' => '1']),
    fn() => Response::stream([], headers: ['X' => "a\r\nb"]),
] as $wrong) {
    try {
        $wrong();
        echo "accepted\n";
    } catch (MisuseError|TypeError $error) {
        echo $error::class, ': ', $error->getMessage(), "\n";
    }
}

// A cycle through a stream is collected.
$cycle = new stdClass();
$cycle->response = Response::stream(function () use ($cycle) { yield 'x'; });
unset($cycle);
var_dump(gc_collect_cycles() > 0);
?>
--EXPECTF--
int(201)
string(0) ""
string(24) "application/octet-stream"
string(1) "1"
string(8) "text/csv"
string(1) "2"
freed
TypeError: Fermata\Response::stream(): Argument #1 ($body) must be of type Traversable|callable|array, int given
TypeError: Fermata\Response::stream(): Argument #1 ($body) must be of type Traversable|callable|array, string given
Fermata\Exception\MisuseError: the status must be 200 to 599, not 99
Fermata\Exception\MisuseError: the length of a stream must not be negative; leave it out when it is not known
Fermata\Exception\MisuseError: %sContent-Length%s
Fermata\Exception\MisuseError: %s
bool(true)
