--TEST--
static(): PHP programs are 404 unless they are asked for, and open_basedir bounds the directory
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\Server;

$directory = sys_get_temp_dir() . '/fermata-sources-' . getmypid();
mkdir("$directory/in", recursive: true);
foreach (['index.html' => 'index', 'config.php' => '<?php $password', 'config.php~' => '<?php $password', 'in/a.phar' => 'phar', 'in/a.inc' => 'inc'] as $name => $text) {
    file_put_contents("$directory/$name", $text);
}
$server = new TestServer("\$server->static('/', '$directory'); \$server->static('/sources', '$directory', sources: true);");
foreach (['/', '/config.php', '/config.PHP', '/config.php~', '/in/a.phar', '/in/a.inc', '/sources/config.php', '/sources/in/a.inc'] as $path) {
    echo "$path: ", $server->get($path), "\n";
}
$server = null;
thrown(fn() => (new Server())->static('/', $directory, index: 'config.php'));
ini_set('open_basedir', "$directory/in:" . __DIR__);
(new Server())->static('/', "$directory/in");
thrown(fn() => (new Server())->static('/', $directory));
thrown(fn() => (new Server())->static('/', "$directory/in/.."));
?>
--CLEAN--
<?php
foreach (glob(sys_get_temp_dir() . '/fermata-sources-*') as $directory) {
    array_map('unlink', [...glob("$directory/*.*"), ...glob("$directory/in/*")]);
    @rmdir("$directory/in");
    @rmdir($directory);
}
?>
--EXPECTF--
/: 200 index
/config.php: 404 Nothing is here.
%w
/config.PHP: 404 Nothing is here.
%w
/config.php~: 404 Nothing is here.
%w
/in/a.phar: 404 Nothing is here.
%w
/in/a.inc: 404 Nothing is here.
%w
/sources/config.php: 200 <?php $password
/sources/in/a.inc: 200 inc
Fermata\Exception\MisuseError: the directory %s cannot be served: the index "config.php" would be sent as text and not run; add a route for it, or allow sources; check the path, its permissions and the options
Fermata\Exception\MisuseError: the directory %s is outside of open_basedir; add it there, or serve another one
Fermata\Exception\MisuseError: the directory %s/.. is outside of open_basedir; add it there, or serve another one
