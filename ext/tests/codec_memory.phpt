--TEST--
Codec: memory is flat over frames, null and exceptions; a forked child draws masking keys of its own
--EXTENSIONS--
fermata
--SKIPIF--
<?php if (!function_exists('pcntl_fork')) die('skip needs pcntl'); ?>
--FILE--
<?php
use Fermata\WebSocket\{Codec, Opcode};

$before = null;
for ($i = 0; $i < 3000; $i++) {
    $bytes = Codec::encode(str_repeat('x', $i), Opcode::Binary, masked: true);
    Codec::decode($bytes)->payload;
    Codec::decode(substr($bytes, 0, -1));
    Codec::decode(Codec::encodeClose(1000, "bye $i"));
    try { Codec::decode("\x81\x02\xff$i"); } catch (Exception) {}
    try { Codec::encode("\xff$i"); } catch (Error) {}
    unset($bytes);
    gc_collect_cycles();
    $before ??= $i === 10 ? memory_get_usage() : null;
}
echo memory_get_usage() - $before < 10000 ? "flat\n" : memory_get_usage() - $before . "\n";

$file = tempnam(sys_get_temp_dir(), 'codec');
if (pcntl_fork() === 0) {
    file_put_contents($file, Codec::encode('x', masked: true));
    exit(0);
}
pcntl_wait($status);
echo substr(file_get_contents($file), 2, 4) === substr(Codec::encode('x', masked: true), 2, 4) ? "same key\n" : "own key\n";
unlink($file);
?>
--EXPECT--
flat
own key
