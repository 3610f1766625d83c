--TEST--
A process that a handler has forked works on files by itself, and leaves the temporary files of its parent
--EXTENSIONS--
fermata
pcntl
--SKIPIF--
<?php if (!extension_loaded('pcntl')) die('skip needs pcntl'); ?>
--FILE--
<?php
require __DIR__ . '/server.inc';
$code = <<<'PHP'
use Fermata\File;
$server->get('/', function () {
    $file = File::temporary();
    File::write($file->path, 'parent', sync: true);
    if (($child = pcntl_fork()) === 0) {
        File::write($file->path, 'child', sync: true);
        exit(0);
    }
    pcntl_waitpid($child, $status);
    return Response::text(File::read($file->path));
});
PHP;
$ini = [];
foreach (FILE_IO as $io) {
    $server = new TestServer($code, ini: $ini, environment: ['FERMATA_FILE_IO' => $io, 'VALGRIND_OPTS' => '--leak-check=no']); // the child has the stacks of threads that exist only in its parent
    echo $server->get('/'), "\n", $server->get('/'), "\n";
    var_dump($server->stop());
}
?>
--EXPECT--
200 child
200 child
int(0)
200 child
200 child
int(0)
