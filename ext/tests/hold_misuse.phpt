--TEST--
Hold: what it refuses
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Event, Hold, SlowPolicy};

$hold = Hold::sse('a', 'b');
var_dump($hold->as('u', ['n' => 1])->since('x')->since(null)->keepAlive(0)->keepAlive(3600)->with()->with(new Event('d'), new Event('e'))
    ->slow(SlowPolicy::Close)->withHeader('A', 'b')->withHeader('a', 'c') === $hold);
thrown(fn() => Hold::sse(''));
thrown(fn() => Hold::sse('a', str_repeat('x', 256)));
thrown(fn() => Hold::sse('a', []));
thrown(fn() => $hold->as(''));
thrown(fn() => $hold->keepAlive(-1));
thrown(fn() => $hold->keepAlive(3601));
thrown(fn() => $hold->with(new Event('d'), new stdClass()));
thrown(fn() => $hold->with('text'));
thrown(fn() => $hold->slow('gap'));
thrown(fn() => new Hold());
?>
--EXPECTF--
bool(true)
Fermata\Exception\MisuseError: channel name %s
Fermata\Exception\MisuseError: channel name %s
TypeError: Fermata\Hold::sse(): Argument #2 must be of type string, array given
Fermata\Exception\MisuseError: a present user needs a name; leave as() out to hold a client that is not counted
Fermata\Exception\MisuseError: keepAlive() takes 1 to 3600 seconds, or 0 for off, not -1
Fermata\Exception\MisuseError: keepAlive() takes 1 to 3600 seconds, or 0 for off, not 3601
TypeError: Fermata\Hold::with(): Argument #2 must be of type Fermata\Event, stdClass given
TypeError: Fermata\Hold::with(): Argument #1 must be of type Fermata\Event, string given
TypeError: Fermata\Hold::slow(): Argument #1 ($policy) must be of type Fermata\SlowPolicy, string given
Error: Call to private Fermata\Hold::__construct() from global scope
