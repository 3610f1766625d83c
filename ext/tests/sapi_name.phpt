--TEST--
Runtime::setSapiName() changes PHP_SAPI and php_sapi_name() in files compiled before and after it, with and without OPcache
--EXTENSIONS--
fermata
--FILE--
<?php
$folder = sys_get_temp_dir() . '/fermata-sapi-' . getmypid();
mkdir($folder);
foreach (['before', 'after'] as $name) {
    $lines = 'return [PHP_SAPI, \PHP_SAPI, php_sapi_name(), constant("PHP_SAPI"), Names' . $name . '::NAME];';
    file_put_contents("$folder/$name.php", "<?php\nnamespace Test;\nclass Names$name { const NAME = \PHP_SAPI; }\nfunction $name(): array { $lines }\n");
    // OPcache does not cache files that were just written.
    touch("$folder/$name.php", time() - 100);
}
file_put_contents("$folder/main.php", <<<'PHP'
<?php
use Fermata\Runtime;
require __DIR__ . '/before.php';
$show = static function (array $names): string { return implode(' ', array_unique($names)); };
echo $show([PHP_SAPI, php_sapi_name()]), ' ', var_export(defined('STDIN'), true), "\n";
Runtime::setSapiName('frankenphp');
require __DIR__ . '/after.php';
echo $show([...Test\before(), ...Test\after(), eval('return PHP_SAPI;'), php_sapi_name()]), "\n";
// Evaluated separately, because the compiled code above already refers to STDIN.
echo eval('return defined("STDIN");') ? 'STDIN' : 'none', ' ', fgets(fopen('php://stdin', 'r'));
foreach (['', 'a b', str_repeat('a', 33)] as $wrong) {
    try {
        Runtime::setSapiName($wrong);
    } catch (ValueError $e) {
        echo $e->getMessage(), "\n";
    }
}
try {
    eval('class {');
} catch (ParseError) {
    echo PHP_SAPI, "\n";
}
register_shutdown_function(static function (): void { echo "\n", PHP_SAPI, ' ', eval('return PHP_SAPI;'), "\n"; });
Runtime::setSapiName('cli');
echo $show([php_sapi_name(), PHP_SAPI, Test\before()[0], Test\after()[2]]), ' ', eval('return is_resource(STDIN);') ? 'STDIN' : 'none', "\n";
// A file that cannot be compiled ends the script.
Runtime::setSapiName('other');
eval('abstract final class Wrong {}');
PHP);
$php = implode(' ', array_map(escapeshellarg(...), preg_split('/\s+/', getenv('FERMATA_PHPT_SERVER'), -1, PREG_SPLIT_NO_EMPTY)));
$opcache = PHP_VERSION_ID < 80500 ? '-dzend_extension=opcache' : '';
foreach (['', "$opcache -dopcache.enable_cli=1 -dopcache.jit=disable"] as $options) {
    echo shell_exec("echo piped | $php $options -dlog_errors=0 -ddisplay_errors=0 $folder/main.php"), "\n";
}
foreach (['Fermata', 'no name'] as $name) {
    putenv("FERMATA_SAPI_NAME=$name");
    $code = 'try { new Fermata\Server(); } catch (Fermata\Exception\ConfigurationException $e) { echo $e->getMessage(), "\n"; } Fermata\Runtime::setSapiName("given"); echo PHP_SAPI, "\n";';
    echo shell_exec("$php -r " . escapeshellarg($code));
}
array_map(unlink(...), glob("$folder/*"));
rmdir($folder);
?>
--EXPECT--
cli true
frankenphp
none piped
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
frankenphp
cli STDIN

other other

cli true
frankenphp
none piped
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
Fermata\Runtime::setSapiName(): Argument #1 ($name) must have 1 to 32 letters, digits, "-" and "_"
frankenphp
cli STDIN

other other

Fermata
sapi_name has other characters than letters, digits, "-" and "_", or more than 32; set a name such as frankenphp
given
