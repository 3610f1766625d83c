--TEST--
A fermata.* name that is no setting is an error; keys of edges are not shown
--EXTENSIONS--
fermata
--INI--
fermata.workres=2
fermata.grip_url="http://127.0.0.1:5561/?key=secret&iss=a http://10.0.0.1/?iss=b&verify-key=hidden"
--FILE--
<?php
require __DIR__ . '/server.inc';

thrown(fn () => new Fermata\Server());
ob_start();
phpinfo(INFO_MODULES);
preg_match('/^grip_url.*$/m', ob_get_clean(), $line);
echo $line[0], "\n";
?>
--EXPECTF--
Fermata\Exception\ConfigurationException: %sworkres%sdid you mean%sworkers%S
grip_url => http://127.0.0.1:5561/?key=***&iss=a http://10.0.0.1/?iss=b&verify-key=*** => ini
