--TEST--
Event: its values, and what it refuses
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\Event;

var_dump(new Event("two\nlines"), Event::json(['a' => 'ü/'], name: 'chat'));
thrown(fn() => new Event('d', ''));
thrown(fn() => new Event('d', "a\nb"));
thrown(fn() => Event::json('d', "a\rb"));
thrown(fn() => new Event('d', "a\0b"));
thrown(fn() => new Event("\xff"));
$event = new Event('d');
thrown(function () use ($event) { $event->data = 'e'; });
thrown(function () use ($event) { $event->other = 'e'; });
thrown(fn() => $event->__construct('e'));
?>
--EXPECTF--
object(Fermata\Event)#%d (4) {
  ["data"]=>
  string(9) "two
lines"
  ["name"]=>
  NULL
  ["id"]=>
  NULL
  ["timeMs"]=>
  NULL
}
object(Fermata\Event)#%d (4) {
  ["data"]=>
  string(11) "{"a":"ü/"}"
  ["name"]=>
  string(4) "chat"
  ["id"]=>
  NULL
  ["timeMs"]=>
  NULL
}
Fermata\Exception\MisuseError: an event name must not be empty; leave it out for the browser's "message"
Fermata\Exception\MisuseError: event name%s
Fermata\Exception\MisuseError: event name%s
Fermata\Exception\MisuseError: event name%s
Fermata\Exception\MisuseError: event: it is not valid UTF-8%s
Error: Cannot modify readonly property Fermata\Event::$data
Error: Cannot create dynamic property Fermata\Event::$other
Fermata\Exception\MisuseError: the object is already constructed; create a new one
