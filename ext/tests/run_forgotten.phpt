--TEST--
Server: a script that prepares one and ends without run() says so; of two extensions both files are named
--EXTENSIONS--
fermata
--FILE--
<?php
$folder = sys_get_temp_dir() . '/fermata-run-' . getmypid();
mkdir($folder);
$extension = getenv('FERMATA_EXTENSION');
$run = function (string $code, string $more = '') use ($folder, $extension): void {
    file_put_contents("$folder/script.php", "<?php $code");
    $php = escapeshellarg(PHP_BINARY) . ' -n -d display_errors=1 -d log_errors=0 -d html_errors=0 -d extension=' . escapeshellarg($extension);
    exec("cd $folder && $php $more script.php 2>&1", $lines, $status);
    echo str_replace([$extension, $folder], ['FIRST', 'FOLDER'], trim(implode("\n", $lines))), " ($status)\n";
};
$server = '$s = new Fermata\Server(); ';
$route = '$s->get("/", fn () => null); ';
echo "forgotten: "; $run("$server $route");
echo "kept to the end: "; $run("$server $route \$GLOBALS['keep'] = \$s; \$s->notFound(fn () => \$s);");
echo "nothing prepared: "; $run($server);
echo "failed: "; $run("$server $route exit(3);");
echo "ended by an exception: "; $run("$server $route throw new DomainException('x');");
echo "run() has failed: "; $run("$server $route try { (new Fiber(fn () => \$s->run()))->start(); } catch (Error) { echo 'refused'; }");
copy($extension, "$folder/second.so");
echo "another file: "; $run('', "-d extension=$folder/second.so");
echo "the same file: "; $run('', '-d extension=' . escapeshellarg($extension));
array_map(unlink(...), glob("$folder/*"));
rmdir($folder);
?>
--EXPECTF--
forgotten: fermata: this script has prepared a Fermata\Server and ended without run(), so nothing is served; write $server->run(); at its end (0)
kept to the end: fermata: this script has prepared a Fermata\Server and ended without run(), so nothing is served; write $server->run(); at its end (0)
nothing prepared:  (0)
failed:  (3)
ended by an exception: %AFatal error: Uncaught DomainException: x in FOLDER/script.php:1
Stack trace:
#0 {main}
  thrown in FOLDER/script.php on line 1 (255)
run() has failed: refused (0)
another file: Warning: FIRST is used, and FOLDER/second.so is not, because it comes second; remove one from php.ini, its folder or the command line in Unknown on line 0

Warning: Module "fermata" is already loaded in Unknown on line 0 (0)
the same file: Warning: FIRST is named twice, in php.ini or its folder and on the command line; remove one in Unknown on line 0

Warning: Module "fermata" is already loaded in Unknown on line 0 (0)
