--TEST--
An open file has a position, lines, blocks and locks, and a temporary one goes with its object
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
use Fermata\File;
use Fermata\File\OpenMode;

function work(string $folder): string
{
    $out = '';
    $say = function (mixed ...$values) use (&$out) { $out .= implode(' ', array_map(fn ($value) => json_encode($value), $values)) . "\n"; };
    $caught = function (callable $work) use ($say, $folder) { try { $work(); $say('nothing thrown'); } catch (Throwable $e) { $say($e::class, str_replace("$folder/", '', explode(' starts at ', $e->getMessage())[0])); } };
    $file = File::open("$folder/f", OpenMode::New);
    $say($file->writeBlock("one\r\ntwo\n\nlast"), $file->position(), $file->size());
    $file->seek(0);
    $say($file->readBlock(2), $file->readLine(), $file->readLine(), $file->readLine(), $file->readLine(), $file->readLine(), $file->readBlock());
    $file->truncate(3);
    $file->sync();
    $say($file->size(), $file->position());
    $other = File::open("$folder/f");
    $say($file->tryLock(), $other->tryLock(), $other->tryLock(exclusive: false));
    $file->unlock();
    $other->lock();
    $say($file->tryLock(exclusive: false));
    $other->close();
    $other->close();
    $say($file->tryLock());
    $caught(fn () => $other->readLine());
    $caught(fn () => $other->position());
    $caught(fn () => $file->seek(-1));
    $caught(fn () => $file->readBlock(0));
    $caught(fn () => $file->keep("$folder/x"));
    $file->seek(0);
    $caught(fn () => $file->readLine(bytesMax: 2));
    $append = File::open("$folder/f", OpenMode::Append);
    $say($append->position(), $append->writeBlock('!'), $append->position(), File::read("$folder/f"));
    $caught(fn () => File::open("$folder/f")->writeBlock('x'));
    $temporary = File::temporary($folder, 'part-');
    $path = $temporary->path;
    $say(str_starts_with($path, "$folder/part-"), decoct(fileperms($path) & 0777), $temporary->writeBlock('kept'));
    $temporary->keep("$folder/kept");
    $say(basename($temporary->path), file_exists($path));
    unset($temporary);
    $say(File::read("$folder/kept"));
    $gone = File::temporary($folder);
    $say(count(File::list($folder)));
    unset($gone);
    $say(File::list($folder));
    $caught(function () use ($folder) { $lines = File::lines("$folder/kept"); foreach ($lines as $line); $lines->next(); foreach ($lines as $line); });
    $caught(fn () => File::lines("$folder/none"));
    $caught(fn () => clone $file);
    $caught(fn () => new File);
    File::remove("$folder/f");
    File::remove("$folder/kept");
    return $out;
}
PHP;
eval($code);
$folder = sys_get_temp_dir() . '/fermata-file-' . bin2hex(random_bytes(6));
mkdir($folder);
echo $alone = work($folder);
foreach (FILE_IO as $io) {
    $server = new TestServer("$code \$server->get('/', fn () => Response::text(work('$folder')));",
        environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => '0']);
    $answer = $server->get('/')->body;
    echo $answer === $alone ? "the same\n" : $answer . $server->log();
    var_dump($server->stop());
}
rmdir($folder);
?>
--EXPECT--
14 14 14
"on" "e" "two" "" "last" null null
3 14
true false false
false
true
"Fermata\\Exception\\MisuseError" "the file f is closed; open it again"
"Fermata\\Exception\\MisuseError" "the file f is closed; open it again"
"Fermata\\Exception\\MisuseError" "the position must be 0 or more, not -1"
"Fermata\\Exception\\MisuseError" "the number of bytes must be 1 or more, not 0"
"Fermata\\Exception\\MisuseError" "f is no temporary file; use File::rename()"
"Fermata\\Exception\\FileException" "cannot read f: a line has more than 2 bytes; allow more or read blocks"
3 1 4 "one!"
"Fermata\\Exception\\FileException" "cannot write f: it was opened only for reading or only for writing; open it with another OpenMode"
true "600" 4
"kept" false
"kept"
3
["f","kept"]
"Fermata\\Exception\\MisuseError" "the pieces of a file can be gone through once; call File::lines() or File::blocks() again"
"Fermata\\Exception\\FileNotFoundException" "cannot open none: No such file or directory; a relative path"
"Error" "Trying to clone an uncloneable object of class Fermata\\File"
"Error" "Call to private Fermata\\File::__construct() from global scope"
the same
int(0)
the same
int(0)
