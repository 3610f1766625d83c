--TEST--
A full disk is a DiskFullException: what is half written is told, and an atomic replacement leaves the old file
--EXTENSIONS--
fermata
posix
--SKIPIF--
<?php
if (posix_geteuid() !== 0) die('skip needs root, to mount a small file system');
$folder = sys_get_temp_dir() . '/fermata-mount-' . getmypid();
mkdir($folder);
exec('mount -t tmpfs -o size=64k none ' . escapeshellarg($folder) . ' 2>&1', $output, $code);
exec('umount ' . escapeshellarg($folder) . ' 2>&1');
rmdir($folder);
if ($code !== 0) die('skip a tmpfs cannot be mounted here');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
use Fermata\Exception\DiskFullException;
use Fermata\File;
use Fermata\File\{OpenMode, WriteMode};

function work(string $folder): string
{
    $out = '';
    $caught = function (callable $work) use (&$out, $folder) { try { $work(); $out .= "nothing thrown\n"; } catch (DiskFullException $e) { $out .= 'full: ' . str_replace("$folder/", '', $e->getMessage()) . "\n"; } };
    $long = str_repeat('x', 100000);
    File::write("$folder/old", 'old');
    $caught(fn () => File::write("$folder/new", $long));
    $out .= File::stat("$folder/new")->size . "\n";
    File::remove("$folder/new");
    $caught(fn () => File::write("$folder/old", $long, WriteMode::Atomic));
    $caught(fn () => File::copy('/usr/bin/env', "$folder/old") && File::copy('/bin/bash', "$folder/old"));
    $out .= implode(' ', File::list($folder)) . ' ' . strlen(File::read("$folder/old")) . "\n";
    File::remove("$folder/old");
    $file = File::open("$folder/f", OpenMode::New);
    $caught(fn () => $file->writeBlock($long));
    $out .= $file->position() . "\n";
    $file->close();
    File::remove("$folder/f");
    $out .= File::write("$folder/old", 'again') . "\n";
    return $out;
}
PHP;
eval($code);
$folder = sys_get_temp_dir() . '/fermata-mount-' . getmypid();
mkdir($folder);
exec('mount -t tmpfs -o size=64k none ' . escapeshellarg($folder));
try {
    $alone = work($folder);
    echo preg_replace('/\d{4,}/', 'N', $alone);
    foreach (FILE_IO as $io) {
        foreach ([262144, 0] as $inline) {
            $server = new TestServer("$code \$server->get('/', fn () => Response::text(work('$folder')));",
                environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => (string) $inline]);
            $answer = $server->get('/')->body;
            echo $answer === $alone ? "the same\n" : "$answer\n" . $server->log();
            $server->stop();
        }
    }
} finally {
    exec('umount ' . escapeshellarg($folder));
    rmdir($folder);
}
?>
--EXPECT--
full: cannot write new: No space left on device; make room on the file system; N bytes are in the file, which WriteMode::Atomic would have left as it was
N
full: cannot write old: No space left on device; make room on the file system
full: cannot copy /bin/bash to old: No space left on device; make room on the file system
old N
full: cannot write f: No space left on device; make room on the file system; N bytes are in the file, which WriteMode::Atomic would have left as it was
N
5
the same
the same
the same
the same
