--TEST--
Codec: what encode() wrote decode() reads, for every size class, opcode and flag; any prefix gives null
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{Codec, Opcode};

$failed = 0;
foreach ([0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 125, 126, 127, 1024, 65535, 65536, 100000] as $length) {
    $payload = $length ? random_bytes($length) : '';
    foreach ([Opcode::Binary, Opcode::Continuation, Opcode::Ping, Opcode::Pong] as $opcode) {
        $control = $opcode === Opcode::Ping || $opcode === Opcode::Pong;
        if ($control && $length > 125) {
            continue;
        }
        foreach ([false, true] as $masked) {
            foreach ($control ? [true] : [false, true] as $fin) {
                $bytes = Codec::encode($payload, $opcode, $masked, $fin);
                $frame = Codec::decode($bytes . 'more', masked: $masked);
                $same = $frame->payload === $payload && $frame->opcode === $opcode && $frame->masked === $masked && $frame->fin === $fin
                    && !$frame->rsv1 && !$frame->rsv2 && !$frame->rsv3
                    && $frame->bytesConsumed === strlen($bytes) && $frame->closeCode === null && $frame->closeReason === null;
                $failed += $same ? 0 : 1;
                for ($end = 0; $end < min(20, strlen($bytes)); $end++) {
                    $failed += Codec::decode(substr($bytes, 0, $end)) === null ? 0 : 1;
                }
                $failed += Codec::decode(substr($bytes, 0, -1)) === null ? 0 : 1;
            }
        }
    }
}
echo "$failed failed\n";

$frame = Codec::decode(Codec::encode("\xff", rsv1: true, rsv3: true), rsv1: true, rsv2: true, rsv3: true);
var_dump($frame->rsv1, $frame->rsv2, $frame->rsv3, bin2hex($frame->payload));
var_dump(Codec::encode('x', masked: true) === Codec::encode('x', masked: true) && Codec::encode('x', masked: true) === Codec::encode('x', masked: true));
?>
--EXPECT--
0 failed
bool(true)
bool(false)
bool(true)
string(2) "ff"
bool(false)
