--TEST--
Codec::decode(): what the peer does wrong has a close code
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\Exception\{FermataException, ProtocolException};
use Fermata\WebSocket\{CloseCode, Codec};

function violation(string $hex, mixed ...$arguments): void
{
    try {
        var_dump(Codec::decode(hex2bin($hex), ...$arguments));
    } catch (ProtocolException $violation) {
        echo $violation->getCode(), ' ', $violation->closeCode()->name, ': ', $violation->getMessage(), "\n";
    }
}
violation('83');
violation('8b');
violation('c1');
violation('a1', rsv1: true);
violation('c9', rsv1: true);
violation('09');
violation('897e');
violation('8101', masked: true);
violation('8181', masked: false);
violation('827e007d');
violation('827f000000000000ffff');
violation('827f80');
violation('8265', payloadBytesMax: 100);
violation('827f0000000001000001');
violation('8101ff');
violation('0102e228');
violation('880103');
violation('880203ee');
violation('880303e8ff');
var_dump((new ProtocolException('by hand'))->closeCode(), (new ProtocolException('by hand', 1009))->closeCode());
var_dump(new ProtocolException() instanceof FermataException);
?>
--EXPECT--
1002 ProtocolError: the opcode is reserved; use continuation, text, binary, close, ping or pong
1002 ProtocolError: the opcode is reserved; use continuation, text, binary, close, ping or pong
1002 ProtocolError: a reserved bit is set; negotiate the extension that uses it
1002 ProtocolError: a reserved bit is set; negotiate the extension that uses it
1002 ProtocolError: a reserved bit is set; negotiate the extension that uses it
1002 ProtocolError: a control frame is fragmented; send it in one frame
1002 ProtocolError: a control frame is too long; send at most 125 bytes
1002 ProtocolError: a client's frame is not masked; mask every frame
1002 ProtocolError: a server's frame is masked; mask no frame
1002 ProtocolError: a payload length is not in its shortest form; use 7, 16 or 64 bits as needed
1002 ProtocolError: a payload length is not in its shortest form; use 7, 16 or 64 bits as needed
1002 ProtocolError: a payload length has its highest bit set; it must be below 2^63
1009 MessageTooBig: a frame is longer than this end accepts; split the message into smaller ones
1009 MessageTooBig: a frame is longer than this end accepts; split the message into smaller ones
1007 InvalidPayload: a text message is not UTF-8; encode it or send it as binary
1007 InvalidPayload: a text message is not UTF-8; encode it or send it as binary
1002 ProtocolError: a close frame holds half a close code; send two bytes or none
1002 ProtocolError: the close code must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999
1007 InvalidPayload: a close reason is not UTF-8; encode it
enum(Fermata\WebSocket\CloseCode::ProtocolError)
enum(Fermata\WebSocket\CloseCode::MessageTooBig)
bool(true)
