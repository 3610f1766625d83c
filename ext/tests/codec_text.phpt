--TEST--
Codec: a plain text is the same frame whether its opcode is left out or named, at every size of the header
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{Codec, Opcode};

$failed = 0;
foreach ([0, 1, 125, 126, 127, 1024, 65535, 65536, 100000] as $length) {
    foreach ([str_repeat('a', $length), str_repeat("\u{e9}", intdiv($length, 2))] as $payload) {
        $bytes = Codec::encode($payload);
        $frame = Codec::decode($bytes . 'more');
        $same = $frame->payload === $payload && $frame->opcode === Opcode::Text && $frame->fin && !$frame->masked
            && $frame->bytesConsumed === strlen($bytes) && $bytes === Codec::encode($payload, Opcode::Text);
        $failed += $same ? 0 : 1;
    }
}
echo "$failed failed\n";
try {
    Codec::encode("a\xff");
} catch (Fermata\Exception\MisuseError $error) {
    echo $error->getMessage(), "\n";
}
?>
--EXPECT--
0 failed
the payload is not UTF-8; encode it or send it with Opcode::Binary
