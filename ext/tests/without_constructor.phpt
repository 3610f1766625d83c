--TEST--
Objects that Reflection makes without a constructor are refused, not read
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Channel, Event, Hold, Limits, Publisher, Request, Response, Server};

function make(string $class): object
{
    return (new ReflectionClass($class))->newInstanceWithoutConstructor();
}

thrown(fn() => Hold::sse('a')->with(make(Event::class)));
thrown(fn() => (new Publisher('unix:/nowhere'))->publish('a', make(Event::class)));
thrown(fn() => make(Channel::class)->publish(new Event('d')));
var_dump((new Server(limits: make(Limits::class))) instanceof Server);
foreach ([Request::class, Response::class, Hold::class, Server::class, Publisher::class] as $class) {
    thrown(fn() => make($class));
}
?>
--EXPECTF--
Fermata\Exception\MisuseError: the event was made without its constructor; use new Event() or Event::json()
Fermata\Exception\MisuseError: the event was made without its constructor; use new Event() or Event::json()
Fermata\Exception\MisuseError: channels belong to a running server; elsewhere publish with Fermata\Publisher over its control socket
bool(true)
ReflectionException: Class Fermata\Request is an internal class marked as final that cannot be instantiated without invoking its constructor
ReflectionException: Class Fermata\Response is an internal class marked as final that cannot be instantiated without invoking its constructor
ReflectionException: Class Fermata\Hold is an internal class marked as final that cannot be instantiated without invoking its constructor
ReflectionException: Class Fermata\Server is an internal class marked as final that cannot be instantiated without invoking its constructor
ReflectionException: Class Fermata\Publisher is an internal class marked as final that cannot be instantiated without invoking its constructor
