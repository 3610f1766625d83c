--TEST--
Codec: close frames have a code and a reason, or neither
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\WebSocket\{CloseCode, Codec, Opcode};

function show(string $bytes): void
{
    $frame = Codec::decode($bytes);
    echo $frame->opcode->name, ' ', var_export($frame->closeCode, true), ' ', var_export($frame->closeReason, true),
        ' ', CloseCode::tryFrom((int) $frame->closeCode)?->name, "\n";
}
show(Codec::encodeClose());
show(Codec::encodeClose(CloseCode::GoingAway, 'bis später', masked: true));
show(Codec::encodeClose(4999, str_repeat('x', 123)));
show(Codec::encode('', Opcode::Close));
show(Codec::encode("\x03\xf3oops", Opcode::Close));

thrown(fn() => Codec::encodeClose(CloseCode::NoStatus));
thrown(fn() => Codec::encodeClose(CloseCode::Abnormal));
thrown(fn() => Codec::encodeClose(999));
thrown(fn() => Codec::encodeClose(65536 + 1000));
thrown(fn() => Codec::encodeClose(1000, "\xff"));
thrown(fn() => Codec::encodeClose(1000, str_repeat('x', 124)));
thrown(fn() => Codec::encode('x', Opcode::Close));
thrown(fn() => Codec::encode("\x03\xed", Opcode::Close));
?>
--EXPECT--
Close 1000 '' Normal
Close 1001 'bis später' GoingAway
Close 4999 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' 
Close NULL '' 
Close 1011 'oops' InternalError
Fermata\Exception\MisuseError: close code 1005 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 1006 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 999 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: close code 66536 must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
Fermata\Exception\MisuseError: the close reason is not UTF-8
Fermata\Exception\MisuseError: the close reason has 124 bytes, but at most 123 fit a frame
Fermata\Exception\MisuseError: a close frame holds half a close code; send two bytes or none; see Codec::encodeClose()
Fermata\Exception\MisuseError: the close code must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999; see Codec::encodeClose()
