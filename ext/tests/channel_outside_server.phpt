--TEST--
Channel::get() outside a running server names the alternative
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

thrown(fn() => Fermata\Channel::get('room'));
thrown(fn() => new Fermata\Channel());
thrown(fn() => new Fermata\Member());
thrown(fn() => new Fermata\Request());
?>
--EXPECT--
Fermata\Exception\MisuseError: channels belong to a running server; elsewhere publish with Fermata\Publisher over its control socket
Error: Call to private Fermata\Channel::__construct() from global scope
Error: Call to private Fermata\Member::__construct() from global scope
Error: Call to private Fermata\Request::__construct() from global scope
