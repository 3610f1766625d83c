--TEST--
Handles are final, cannot be cloned, and nothing can be serialized
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Event, Hold, Limits, Publisher, Response, Server};

foreach ([new Server(), Hold::sse('a'), new Publisher('unix:/a')] as $handle) {
    thrown(fn() => clone $handle);
}
foreach ([new Server(), Hold::sse('a'), new Publisher('unix:/a'), Response::accepted(), new Event('d'), new Limits()] as $object) {
    thrown(fn() => serialize($object));
    echo (new ReflectionClass($object))->isFinal() ? 'final' : 'open', "\n";
}
thrown(fn() => unserialize('O:13:"Fermata\Event":0:{}'));
?>
--EXPECT--
Error: Trying to clone an uncloneable object of class Fermata\Server
Error: Trying to clone an uncloneable object of class Fermata\Hold
Error: Trying to clone an uncloneable object of class Fermata\Publisher
Exception: Serialization of 'Fermata\Server' is not allowed
final
Exception: Serialization of 'Fermata\Hold' is not allowed
final
Exception: Serialization of 'Fermata\Publisher' is not allowed
final
Exception: Serialization of 'Fermata\Response' is not allowed
final
Exception: Serialization of 'Fermata\Event' is not allowed
final
Exception: Serialization of 'Fermata\Limits' is not allowed
final
Exception: Unserialization of 'Fermata\Event' is not allowed
