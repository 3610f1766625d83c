--TEST--
Frame: its properties are readonly, it cannot be made or serialized by hand
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\WebSocket\{Codec, Frame};

$frame = Codec::decode(Codec::encode('grüße'));
var_dump($frame);
thrown(function () use ($frame) { $frame->payload = 'x'; });
thrown(function () use ($frame) { $frame->other = 'x'; });
thrown(fn() => serialize($frame));
thrown(fn() => new Frame());
?>
--EXPECTF--
object(Fermata\WebSocket\Frame)#%d (10) {
  ["opcode"]=>
  enum(Fermata\WebSocket\Opcode::Text)
  ["payload"]=>
  string(7) "grüße"
  ["fin"]=>
  bool(true)
  ["masked"]=>
  bool(false)
  ["rsv1"]=>
  bool(false)
  ["rsv2"]=>
  bool(false)
  ["rsv3"]=>
  bool(false)
  ["bytesConsumed"]=>
  int(9)
  ["closeCode"]=>
  NULL
  ["closeReason"]=>
  NULL
}
Error: Cannot modify readonly property Fermata\WebSocket\Frame::$payload
Error: Cannot create dynamic property Fermata\WebSocket\Frame::$other
Exception: Serialization of 'Fermata\WebSocket\Frame' is not allowed
Error: Call to private Fermata\WebSocket\Frame::__construct() from global scope
