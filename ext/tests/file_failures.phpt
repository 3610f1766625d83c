--TEST--
What goes wrong with a file has a class of its own, and a message with path, cause and fix
--EXTENSIONS--
fermata
posix
--SKIPIF--
<?php if (posix_geteuid() !== 0) die('skip needs root, to give it up'); ?>
--FILE--
<?php
use Fermata\File;
use Fermata\File\{OpenMode, WriteMode};
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-file-' . bin2hex(random_bytes(6));
mkdir($folder);
chdir($folder);
mkdir('d');
file_put_contents('d/in', 'x');
file_put_contents('f', 'x');
file_put_contents('secret', 'x');
chmod('secret', 0);
chmod('.', 0777);
posix_seteuid(65534);
thrown(fn () => File::read('none'));
thrown(fn () => File::read('d'));
thrown(fn () => File::read('f/none'));
thrown(fn () => File::read('secret'));
thrown(fn () => File::read('/dev/zero'));
thrown(fn () => File::read(''));
thrown(fn () => File::read('f', offset: -1));
thrown(fn () => File::read("f\0"));
thrown(fn () => File::write('f', 'y', WriteMode::New));
thrown(fn () => File::write('d', 'y'));
thrown(fn () => File::write('d', 'y', WriteMode::Atomic));
thrown(fn () => File::write('/proc/none', 'y'));
thrown(fn () => File::copy('f', 'd'));
thrown(fn () => File::copy('none', 'g'));
thrown(fn () => File::rename('f', 'd', overwrite: false));
thrown(fn () => File::list('f'));
thrown(fn () => File::list('none'));
thrown(fn () => File::stat('none'));
thrown(fn () => File::remove('none'));
thrown(fn () => File::remove('d'));
thrown(fn () => File::makeDirectory('d', recursive: false));
thrown(fn () => File::makeDirectory('f'));
thrown(fn () => File::open('none'));
thrown(fn () => File::open('f', OpenMode::New));
thrown(fn () => File::temporary("$folder/none"));
thrown(fn () => File::temporary(prefix: '../x'));
thrown(fn () => iterator_to_array(File::lines('f', bytesMax: 0)));
try { File::read('none'); } catch (Fermata\Exception\FileException $e) { var_dump($e->path, $e instanceof Fermata\Exception\FermataException, $e instanceof RuntimeException); }
posix_seteuid(0);
echo implode(' ', File::list('.')), "\n";
File::remove($folder, recursive: true);
var_dump(file_exists($folder));
?>
--EXPECTF--
Fermata\Exception\FileNotFoundException: cannot read none: No such file or directory; a relative path starts at %s
Fermata\Exception\IsDirectoryException: cannot read d: Is a directory; name a file in it
Fermata\Exception\NotDirectoryException: cannot read f/none: Not a directory; a part of the path is a file
Fermata\Exception\AccessDeniedException: cannot read secret: Permission denied; the server runs as user 65534, who needs the right to it and to all directories above
Fermata\Exception\FileException: cannot read /dev/zero: it is a pipe, a socket or a device; use PHP's streams for it
Fermata\Exception\MisuseError: the path of a file must not be empty
Fermata\Exception\MisuseError: the offset must be 0 or more, not -1
ValueError: Fermata\File::read(): Argument #1 ($path) must not contain any null bytes
Fermata\Exception\FileExistsException: cannot write f: File exists; remove it first or choose another name
Fermata\Exception\IsDirectoryException: cannot write d: Is a directory; name a file in it
Fermata\Exception\IsDirectoryException: cannot write d: Is a directory; name a file in it
Fermata\Exception\%s: cannot write /proc/none: %s
Fermata\Exception\IsDirectoryException: cannot copy f to d: Is a directory; name a file in it
Fermata\Exception\FileNotFoundException: cannot copy none to g: No such file or directory; a relative path starts at %s
Fermata\Exception\FileExistsException: cannot rename f to d: File exists; remove it first or choose another name
Fermata\Exception\NotDirectoryException: cannot list f: Not a directory; a part of the path is a file
Fermata\Exception\FileNotFoundException: cannot list none: No such file or directory; a relative path starts at %s
Fermata\Exception\FileNotFoundException: cannot look at none: No such file or directory; a relative path starts at %s
Fermata\Exception\FileNotFoundException: cannot remove none: No such file or directory; a relative path starts at %s
Fermata\Exception\DirectoryNotEmptyException: cannot remove d: Directory not empty; recursive: true removes what is in it as well
Fermata\Exception\FileExistsException: cannot make the directory d: File exists; remove it first or choose another name
Fermata\Exception\FileExistsException: cannot make the directory f: File exists; remove it first or choose another name
Fermata\Exception\FileNotFoundException: cannot open none: No such file or directory; a relative path starts at %s
Fermata\Exception\FileExistsException: cannot open f: File exists; remove it first or choose another name
Fermata\Exception\FileNotFoundException: cannot make a temporary file in %s/none: No such file or directory; a relative path starts at %s
Fermata\Exception\MisuseError: the prefix of a temporary file must not contain a /; name a directory instead
Fermata\Exception\MisuseError: the number of bytes must be 1 or more, not 0
string(4) "none"
bool(true)
bool(true)
d f secret
bool(false)
