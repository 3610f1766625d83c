--TEST--
Codec::encode(): refuses what a peer would have to close for
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\WebSocket\{Codec, Opcode};

thrown(fn() => Codec::encode("a\xff"));
thrown(fn() => Codec::encode("a\xe2\x82"));
thrown(fn() => Codec::encode("a\xff", fin: false));
thrown(fn() => Codec::encode(str_repeat('x', 126), Opcode::Ping));
thrown(fn() => Codec::encode('', Opcode::Pong, fin: false));
thrown(fn() => Codec::encode('', Opcode::Ping, rsv1: true));
thrown(fn() => Codec::encode('', 1));
// A fragment may end inside a character, a continuation may start there, and an extension may use any bytes.
echo bin2hex(Codec::encode("\xe2\x82", fin: false) . Codec::encode("\xac", Opcode::Continuation) . Codec::encode("\xff", rsv1: true)), "\n";
?>
--EXPECT--
Fermata\Exception\MisuseError: the payload is not UTF-8; encode it or send it with Opcode::Binary
Fermata\Exception\MisuseError: the payload is not UTF-8; encode it or send it with Opcode::Binary
Fermata\Exception\MisuseError: the payload is not UTF-8; encode it or send it with Opcode::Binary
Fermata\Exception\MisuseError: a control frame holds at most 125 bytes, not 126
Fermata\Exception\MisuseError: a control frame is whole and has no reserved bits; leave out fin and rsv1 to rsv3
Fermata\Exception\MisuseError: a control frame is whole and has no reserved bits; leave out fin and rsv1 to rsv3
TypeError: Fermata\WebSocket\Codec::encode(): Argument #2 ($opcode) must be of type Fermata\WebSocket\Opcode, int given
0102e2828001acc101ff
