--TEST--
Codec: the examples of RFC 6455, 5.7
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{Codec, Opcode};

echo bin2hex(Codec::encode('Hello')), "\n";
echo bin2hex(Codec::encode('Hel', fin: false)), ' ', bin2hex(Codec::encode('lo', Opcode::Continuation)), "\n";
echo bin2hex(Codec::encode('Hello', Opcode::Ping)), "\n";
$binary = Codec::encode(str_repeat("\0", 256), Opcode::Binary);
echo bin2hex(substr($binary, 0, 4)), ' ', strlen($binary), "\n";
$binary = Codec::encode(str_repeat("\0", 65536), Opcode::Binary);
echo bin2hex(substr($binary, 0, 10)), ' ', strlen($binary), "\n";

foreach (['810548656c6c6f', '818537fa213d7f9f4d5158', '010348656c', '80026c6f', '890548656c6c6f', '8a8537fa213d7f9f4d5158'] as $hex) {
    $frame = Codec::decode(hex2bin($hex));
    echo $frame->opcode->name, $frame->fin ? '' : ' fragment', $frame->masked ? ' masked' : '', " $frame->payload $frame->bytesConsumed\n";
}
?>
--EXPECT--
810548656c6c6f
010348656c 80026c6f
890548656c6c6f
827e0100 260
827f0000000000010000 65546
Text Hello 7
Text masked Hello 11
Text fragment Hel 5
Continuation lo 4
Ping Hello 7
Pong masked Hello 11
