--TEST--
Hooks: classes of other extensions which extend PDO are guarded as PDO is
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--SKIPIF--
<?php
if ((int) @exec('php-config --vernum 2>&1') !== PHP_VERSION_ID || @exec('command -v cc') === '') die('skip needs a compiler and the headers of this PHP');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

// Subclasses of PDO like PHP 8.4's drivers Pdo\Odbc, Pdo\Dblib, Pdo\Firebird.
$folder = sys_get_temp_dir() . '/fermata-driver-' . getmypid();
mkdir($folder);
file_put_contents("$folder/driver.c", <<<'C'
#include "php.h"

static PHP_MINIT_FUNCTION(driver)
{
	zend_class_entry class;
	INIT_CLASS_ENTRY(class, "Driver\\Database", NULL);
	zend_register_internal_class_ex(&class, zend_hash_str_find_ptr(CG(class_table), "pdo", sizeof("pdo") - 1));
	return SUCCESS;
}

static const zend_module_dep needed[] = {ZEND_MOD_REQUIRED("pdo") ZEND_MOD_END};

zend_module_entry driver_module_entry = {STANDARD_MODULE_HEADER_EX, NULL, needed, "driver", NULL, PHP_MINIT(driver), NULL, NULL,
	NULL, NULL, "1", STANDARD_MODULE_PROPERTIES};

ZEND_GET_MODULE(driver)
C);
exec("cc -shared -fPIC -o $folder/driver.so $folder/driver.c \$(php-config --includes) 2>&1", $output, $status);
$status === 0 || exit(implode("\n", $output));

$ini = array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so")));
$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$begun = 0;
foreach (['pdo' => PDO::class, 'driver' => 'Driver\Database'] as $kind => $class) {
    $database = new $class('sqlite::memory:');
    $server->get("/begin/$kind", function () use ($database, &$begun) {
        $database->beginTransaction();
        $until = ++$begun + 1;
        while ($begun < $until) {
            delay(0.001);
        }
        return Response::json($database->inTransaction());
    });
    // Another handler's transaction is not visible here.
    $server->get("/ask/$kind", function () use ($database) { return Response::json($database->inTransaction()); });
}
$server->get('/begun', function () use (&$begun) { return Response::json($begun); });
$server->get('/go', function () use (&$begun) { return Response::json(++$begun); });
PHP, ini: [...$ini, "-dextension=$folder/driver.so"]);
foreach (['pdo', 'driver'] as $kind) {
    $before = (int) $server->get('/begun')->body;
    $client = $server->connect();
    $client->start('GET', "/begin/$kind");
    $deadline = microtime(true) + WAIT_S;
    while ((int) $server->get('/begun')->body === $before && microtime(true) < $deadline) {
        usleep(1000);
    }
    echo "$kind: ", $server->get("/ask/$kind"), ' ', $server->get('/go')->status, ' ', $client->answer(), "\n";
}
var_dump($server->stop());
echo $server->logged('/error/');
array_map(unlink(...), glob("$folder/*"));
rmdir($folder);
?>
--EXPECT--
pdo: 200 false 200 200 true
driver: 200 false 200 200 true
int(0)
