--TEST--
fastcgi(): arguments that cannot work are named, with what to give instead, and paths that are taken
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\Server;

$root = sys_get_temp_dir() . '/fermata-fastcgi-' . getmypid();
mkdir($root);
touch("$root/index.php");
$masked = static fn (callable $call) => thrown(static function () use ($call, $root): void {
    try {
        $call();
    } catch (\Fermata\Exception\MisuseError $error) {
        throw new \Fermata\Exception\MisuseError(str_replace($root, 'ROOT', $error->getMessage()));
    }
});
$server = new Server();
var_dump($server->fastcgi('/', '/run/fpm.sock', $root) === $server);
var_dump(array_map(static fn (array $route) => "$route[kind] $route[path] $route[handler]", $server->routes()));
$masked(fn () => $server->fastcgi('/', '/run/fpm.sock', $root));
$masked(fn () => $server->fastcgi('old', '/run/fpm.sock', $root));
$masked(fn () => $server->fastcgi('/old/', '/run/fpm.sock', $root));
$masked(fn () => $server->fastcgi('/a', 'php-fpm', $root));
$masked(fn () => $server->fastcgi('/a', '127.0.0.1:0', $root));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', 'www'));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', "$root/nowhere", index: null));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, index: 'app.php'));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, index: '../index.php'));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, connections: 0));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, queue: -1));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, timeout: 0.0));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, timeout: NAN));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, keepAlive: -1.0));
$masked(fn () => $server->fastcgi('/a', '/run/fpm.sock', $root, bodyBytes: -1));
var_dump($server->fastcgi('/remote', '127.0.0.1:9000', '/srv/www', index: 'app.php', files: false) === $server);
ini_set('open_basedir', __DIR__);
$masked(fn () => (new Server())->fastcgi('/', '/run/fpm.sock', $root));
?>
--CLEAN--
<?php
foreach (glob(sys_get_temp_dir() . '/fermata-fastcgi-*') as $root) {
    @unlink("$root/index.php");
    @rmdir($root);
}
?>
--EXPECT--
bool(true)
array(1) {
  [0]=>
  string(31) "handler / FastCGI /run/fpm.sock"
}
Fermata\Exception\MisuseError: fastcgi(): there already is a directory at "/"; remove one of the two
Fermata\Exception\MisuseError: fastcgi(): prefix is "old": give / for everything, or a path such as /old without a slash at its end
Fermata\Exception\MisuseError: fastcgi(): prefix is "/old/": give / for everything, or a path such as /old without a slash at its end
Fermata\Exception\MisuseError: fastcgi(): socket is "php-fpm": that is no address; give the path of a Unix socket, such as /run/php/php-fpm.sock, or HOST:PORT
Fermata\Exception\MisuseError: fastcgi(): socket is "127.0.0.1:0": that is no address; give the path of a Unix socket, such as /run/php/php-fpm.sock, or HOST:PORT
Fermata\Exception\MisuseError: fastcgi(): root is "www": give the absolute path of the folder with the scripts on PHP-FPM's machine
Fermata\Exception\MisuseError: fastcgi(): the directory ROOT/nowhere cannot be served: No such file or directory (os error 2); check the path, its permissions and the options
Fermata\Exception\MisuseError: fastcgi(): index is "/app.php", and ROOT/app.php is not a file; give an existing script, or files: false if PHP-FPM is on another machine
Fermata\Exception\MisuseError: fastcgi(): index is "/../index.php": give a script below the root, such as index.php, or null if paths name scripts
Fermata\Exception\MisuseError: fastcgi(): connections is 0: give 1 to 1024
Fermata\Exception\MisuseError: fastcgi(): queue is 0: give 1 to 65536
Fermata\Exception\MisuseError: fastcgi(): timeout is 0: give seconds from 0.001 to 86400
Fermata\Exception\MisuseError: fastcgi(): timeout is NaN: give seconds from 0.001 to 86400
Fermata\Exception\MisuseError: fastcgi(): keepAlive is -1: give seconds from 0 to 86400
Fermata\Exception\MisuseError: fastcgi(): bodyBytes is -1: give the bytes that a body may have
bool(true)
Fermata\Exception\MisuseError: fastcgi(): root is "ROOT", outside of open_basedir; add it there, or give files: false
