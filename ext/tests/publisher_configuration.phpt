--TEST--
Publisher: its control socket and time-out are checked
--EXTENSIONS--
fermata
--ENV--
FERMATA_CONTROL=
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Event, Publisher};

thrown(fn() => new Publisher());
thrown(fn() => new Publisher('/run/fermata.sock'));
thrown(fn() => new Publisher('unix:'));
thrown(fn() => new Publisher("unix:/a\0b"));
thrown(fn() => new Publisher('unix:/a', 0));
thrown(fn() => new Publisher('unix:/a', timeoutMs: 3600001));
thrown(fn() => (new Publisher('unix:/nowhere/at.sock'))->publish('room', new Event('d')));
thrown(fn() => (new Publisher('unix:/nowhere/at.sock'))->publish('', new Event('d')));
putenv('FERMATA_CONTROL=unix:/nowhere/else.sock');
thrown(fn() => (new Publisher())->publish('room', new Event('d')));
?>
--EXPECTF--
Fermata\Exception\ConfigurationException: no control socket is named; pass control: "unix:/path.sock" as the server does, or set FERMATA_CONTROL
Fermata\Exception\ConfigurationException: control must be a Unix socket, written "unix:/path.sock"
Fermata\Exception\ConfigurationException: control must be a Unix socket, written "unix:/path.sock"
Fermata\Exception\ConfigurationException: control must be a Unix socket, written "unix:/path.sock"
Fermata\Exception\ConfigurationException: timeoutMs must be 1 to 3600000 milliseconds, not 0
Fermata\Exception\ConfigurationException: timeoutMs must be 1 to 3600000 milliseconds, not 3600001
Fermata\Exception\ConnectionException: %s
Fermata\Exception\MisuseError: channel name %s
Fermata\Exception\ConnectionException: %s
