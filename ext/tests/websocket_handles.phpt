--TEST--
The WebSocket classes cannot be made, copied or stored by hand
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket;
use Fermata\WebSocket\{Message, Upgrade};

require __DIR__ . '/server.inc';

foreach ([WebSocket::class, Message::class, Upgrade::class] as $class) {
    thrown(fn () => new $class);
    thrown(fn () => (new ReflectionClass($class))->newInstanceWithoutConstructor());
    thrown(fn () => unserialize('O:' . strlen($class) . ":\"$class\":0:{}"));
}
thrown(fn () => WebSocket::sendTo('x', 'y'));
?>
--EXPECT--
Error: Call to private Fermata\WebSocket::__construct() from global scope
ReflectionException: Class Fermata\WebSocket is an internal class marked as final that cannot be instantiated without invoking its constructor
Exception: Unserialization of 'Fermata\WebSocket' is not allowed
Error: Call to private Fermata\WebSocket\Message::__construct() from global scope
ReflectionException: Class Fermata\WebSocket\Message is an internal class marked as final that cannot be instantiated without invoking its constructor
Exception: Unserialization of 'Fermata\WebSocket\Message' is not allowed
Error: Call to private Fermata\WebSocket\Upgrade::__construct() from global scope
ReflectionException: Class Fermata\WebSocket\Upgrade is an internal class marked as final that cannot be instantiated without invoking its constructor
Exception: Unserialization of 'Fermata\WebSocket\Upgrade' is not allowed
Fermata\Exception\MisuseError: sendTo() needs a running server; elsewhere publish to a channel with Fermata\Publisher
