--TEST--
What blocks overtakes no write that is pending; names hold from when they were given, whatever happens meanwhile
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-file-' . bin2hex(random_bytes(6));
mkdir($folder);
mkdir("$folder/other");
$code = <<<'PHP'
use Fermata\File;
use Fermata\File\{OpenMode, WriteMode};

final class Parting
{
    public function __construct(private readonly Closure $last) {}
    public function __destruct() { ($this->last)(); }
}
function shown(callable $work): string {
    try { return json_encode($work()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
}
$folder = getenv('FOLDER');
$large = str_repeat('0123456789abcdef', 1 << 16);
$cases = [
    'handle' => function () use ($folder, $large) {
        $file = File::open("$folder/handle", OpenMode::New);
        all(fn () => $file->writeBlock($large), function () use ($file) { new Parting(fn () => $file->writeBlock('bye')); });
        return [$file->position() === strlen($large) + 3, File::read("$folder/handle") === $large . 'bye'];
    },
    'path' => function () use ($folder, $large) {
        all(fn () => File::write("$folder/path", $large), function () use ($folder) { new Parting(fn () => File::write("$folder/path", 'bye')); });
        return File::read("$folder/path");
    },
    'rename' => function () use ($folder, $large) {
        all(fn () => File::write("$folder/from", $large, sync: true), fn () => File::rename("$folder/from", "$folder/to"), fn () => File::write("$folder/to", 'new'));
        return [File::read("$folder/to"), File::exists("$folder/from")];
    },
    'directory' => function () use ($folder, $large) {
        all(function () use ($folder, $large) {
            chdir($folder);
            File::write('state', $large, WriteMode::Atomic, sync: true);
            chdir("$folder/other");
        });
        return [File::stat("$folder/state")->size === strlen($large), File::list("$folder/other")];
    },
    'temporary' => function () use ($folder) {
        chdir($folder);
        $file = File::temporary('other', 'gone-');
        $path = $file->path;
        chdir("$folder/other");
        unset($file);
        return [str_starts_with($path, 'other/gone-'), File::list("$folder/other")];
    },
    'kept while it is written' => function () use ($folder, $large) {
        $file = File::temporary($folder);
        $sizes = all(fn () => $file->writeBlock($large), fn () => $file->keep("$folder/kept"), fn () => $file->writeBlock('!'));
        return [$sizes, basename($file->path), File::stat("$folder/kept")->size];
    },
    // Fails if the file has already got another name.
    'fails while it is kept' => function () use ($folder, $large) {
        $file = File::temporary($folder);
        $before = $file->path;
        $say = function (callable $work) use ($before) { try { return $work() ?? 'done'; } catch (Fermata\Exception\FileException $e) { return $e->path === $before ? 'failed by its old name' : $e->path; } };
        return all(fn () => $file->writeBlock($large), fn () => $file->seek(0), fn () => $say(fn () => $file->keep("$folder/named")), fn () => $say(fn () => $file->readLine(1)));
    },
    'kept nowhere, then somewhere' => function () use ($folder) {
        $file = File::temporary($folder, 'still-');
        try { $file->keep("$folder/no/where"); } catch (Fermata\Exception\FileNotFoundException) {}
        [$first, $second] = all(fn () => $file->keep("$folder/once"), fn () => str_replace($file->path, 'PATH', shown(fn () => $file->keep("$folder/twice"))));
        return [$second, basename($file->path)];
    },
    'two in one loop' => function () use ($folder) {
        File::write("$folder/lines", implode("\n", array_map(fn ($n) => str_repeat("$n", 300_000), [1, 2, 3])));
        $lines = File::lines("$folder/lines");
        $next = function () use ($lines) { try { $lines->next(); return substr($lines->current(), 0, 1); } catch (Fermata\Exception\MisuseError $e) { return $e->getMessage(); } };
        $lines->rewind();
        $both = all($next, $next);
        File::remove("$folder/lines");
        // With io_uring the result may be available immediately.
        return getenv('FERMATA_FILE_IO') !== 'threads' || str_starts_with($both[1], 'another handler or task waits');
    },
    'large blocks' => function () use ($folder) {
        File::write("$folder/block", str_repeat('x', 10000));
        return strlen(File::open("$folder/block")->readBlock(PHP_INT_MAX));
    },
];
$server->get('/case/{case}', fn (Request $r) => Response::text(shown($cases[rawurldecode($r->route('case'))])));
$server->get('/', fn () => Response::json(array_keys($cases)));
$server->get('/names', fn () => Response::json(File::list($folder)));
PHP;
foreach (FILE_IO as $io) {
    $server = new TestServer($code, environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => '0', 'FERMATA_FILE_READ_BYTES_MAX' => '4096K', 'FOLDER' => $folder]);
    foreach (json_decode($server->get('/')->body) as $case) {
        echo "$case: ", $server->get('/case/' . rawurlencode($case))->body, "\n";
    }
    $names = json_decode($server->get('/names')->body);
    echo implode(' ', $names), "\n";
    var_dump($server->stop());
    echo $server->output();
    foreach (array_diff($names, ['other']) as $name) { unlink("$folder/$name"); }
}
rmdir("$folder/other");
rmdir($folder);
?>
--EXPECT--
handle: [true,true]
path: "bye"
rename: ["new",false]
directory: [true,[]]
temporary: [true,[]]
kept while it is written: [[1048576,null,1],"kept",1048577]
fails while it is kept: [1048576,null,"done","failed by its old name"]
kept nowhere, then somewhere: ["Fermata\\Exception\\MisuseError: PATH is no temporary file; use File::rename()","once"]
two in one loop: true
large blocks: 10000
block handle kept named once other path state to
int(0)
handle: [true,true]
path: "bye"
rename: ["new",false]
directory: [true,[]]
temporary: [true,[]]
kept while it is written: [[1048576,null,1],"kept",1048577]
fails while it is kept: [1048576,null,"done","failed by its old name"]
kept nowhere, then somewhere: ["Fermata\\Exception\\MisuseError: PATH is no temporary file; use File::rename()","once"]
two in one loop: true
large blocks: 10000
block handle kept named once other path state to
int(0)
