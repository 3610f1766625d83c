--TEST--
A fermata.* name that is no setting is an error; keys of edges and passwords of a cluster are not shown
--EXTENSIONS--
fermata
--INI--
fermata.workres=2
fermata.grip_url="http://127.0.0.1:5561/?key=secret&iss=a http://10.0.0.1/?iss=b&verify-key=hidden"
fermata.cluster="nats://user:hidden@a:4222,nats://b,hidden@c"
--FILE--
<?php
require __DIR__ . '/server.inc';

thrown(fn () => new Fermata\Server());
ob_start();
phpinfo(INFO_MODULES);
preg_match_all('/^(?:cluster |grip_url).*$/m', ob_get_clean(), $lines);
echo implode("\n", $lines[0]), "\n";
?>
--EXPECTF--
Fermata\Exception\ConfigurationException: %sworkres%sdid you mean%sworkers%S
cluster => nats://user:***@a:4222,nats://***@c => ini
grip_url => http://127.0.0.1:5561/?key=***&iss=a http://10.0.0.1/?iss=b&verify-key=*** => ini
