--TEST--
Fermata\File reads, writes, copies, lists and removes, outside of a server as in one
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
use Fermata\File;
use Fermata\File\{Type, WriteMode};

function work(string $folder): string
{
    $out = '';
    $say = function (mixed ...$values) use (&$out) { $out .= implode(' ', array_map(fn ($value) => json_encode($value), $values)) . "\n"; };
    File::makeDirectory("$folder/a/b");
    $say(File::write("$folder/a/f", 'one'), File::read("$folder/a/f"));
    $say(File::write("$folder/a/f", 'two', WriteMode::Append), File::read("$folder/a/f"));
    $say(File::write("$folder/a/f", 'three', mode: WriteMode::Atomic, permissions: 0600), File::read("$folder/a/f", offset: 1, length: 3));
    $say(File::write("$folder/a/new", '', WriteMode::New, sync: true), File::read("$folder/a/new"));
    $say(File::copy("$folder/a/f", "$folder/a/g"), File::read("$folder/a/g"));
    File::rename("$folder/a/g", "$folder/a/h");
    symlink('f', "$folder/a/link");
    $say(File::list("$folder/a"));
    $stat = File::stat("$folder/a/f");
    $say($stat->type->name, $stat->size, $stat->isFile(), $stat->isDirectory(), $stat->links, abs($stat->modifiedAt - time()) < 60, $stat->inode === fileinode("$folder/a/f"));
    $say(File::stat("$folder/a/link")->type === Type::File, File::stat("$folder/a/link", followLinks: false)->type->name, File::stat("$folder/a")->isDirectory());
    $say(File::exists("$folder/a/h"), File::exists("$folder/a/none"), File::exists("$folder/a/h/none"));
    $long = str_repeat("0123456789abcdef\n", 40000);
    $say(File::write("$folder/a/long", $long) === strlen($long), File::read("$folder/a/long") === $long, filesize("$folder/a/long"));
    $lines = 0;
    foreach (File::lines("$folder/a/long") as $number => $line) { $lines += (int) ($number === $lines && $line === '0123456789abcdef'); }
    $joined = '';
    foreach (File::blocks("$folder/a/long", bytes: 100000) as $block) { $joined .= $block; }
    $say($lines, $joined === $long);
    File::remove("$folder/a/h");
    File::remove("$folder/a/b");
    File::remove("$folder/a", recursive: true);
    $say(File::list($folder));
    return $out;
}
PHP;
eval($code);
$folder = sys_get_temp_dir() . '/fermata-file-' . bin2hex(random_bytes(6));
mkdir($folder);
echo $alone = work($folder);
foreach (FILE_IO as $io) {
    foreach ([262144, 0] as $inline) {
        $server = new TestServer("$code \$server->get('/', fn () => Response::text(work('$folder')));",
            environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => (string) $inline]);
        echo $server->get('/')->body === $alone ? "the same\n" : $server->log() . $server->output();
        var_dump($server->stop());
    }
}
rmdir($folder);
?>
--EXPECT--
3 "one"
3 "onetwo"
5 "hre"
0 ""
5 "three"
["b","f","h","link","new"]
"File" 5 true false 1 true true
true "Link" true
true false false
true true 680000
40000 true
[]
the same
int(0)
the same
int(0)
the same
int(0)
the same
int(0)
