--TEST--
Codec::decode(): walks through a buffer of frames by offset
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\WebSocket\{Codec, Opcode};

$buffer = Codec::encode('one', masked: true) . Codec::encode('', Opcode::Ping) . Codec::encode('three') . "\x81";
$at = 0;
while ($frame = Codec::decode($buffer, $at)) {
    $at += $frame->bytesConsumed;
    echo $frame->opcode->name, ' ', $frame->payload, "\n";
}
echo bin2hex(substr($buffer, $at)), "\n";
var_dump(Codec::decode($buffer, strlen($buffer)), Codec::decode(''));
thrown(fn() => Codec::decode('ab', 3));
thrown(fn() => Codec::decode('ab', -1));
thrown(fn() => Codec::decode('ab', payloadBytesMax: -1));
?>
--EXPECT--
Text one
Ping 
Text three
81
NULL
NULL
Fermata\Exception\MisuseError: offset 3 lies outside the 2 bytes given
Fermata\Exception\MisuseError: offset -1 lies outside the 2 bytes given
Fermata\Exception\MisuseError: payloadBytesMax must not be negative, and -1 is
