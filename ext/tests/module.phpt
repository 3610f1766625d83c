--TEST--
The module has a version, INI settings from the core, and tells about itself
--EXTENSIONS--
fermata
--FILE--
<?php
$extension = new ReflectionExtension('fermata');
echo $extension->getVersion(), "\n";
var_dump(count($extension->getINIEntries()) > 5);
var_dump(ini_get('fermata.body_bytes_max'));
var_dump(ini_set('fermata.body_bytes_max', '1'));
ob_start();
$extension->info();
$text = ob_get_clean();
var_dump(str_contains($text, "Fermata => {$extension->getVersion()}"), str_contains($text, 'epoll => '));
?>
--EXPECTF--
%d.%d.%d
bool(true)
string(7) "1048576"
bool(false)
bool(true)
bool(true)
