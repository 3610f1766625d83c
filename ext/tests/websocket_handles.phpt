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
