--TEST--
Lines after run() are the master's; shutdown functions and destructors run in every process
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
final class Ended { public function __destruct() { echo "destructor\n"; } }
$ended = new Ended();
ob_start();
echo "once\n";
register_shutdown_function(function () { echo "shutdown\n"; });
$server->get('/', fn () => Response::text('x'));
PHP, 'workers: 2', after: <<<'PHP'
echo "after run\n";
try { $server->run(); } catch (Fermata\Exception\MisuseError $error) { echo $error->getMessage(), "\n"; }
try { $server->get('/late', fn () => null); } catch (Fermata\Exception\MisuseError $error) { echo $error->getMessage(), "\n"; }
try { Channel::get('a'); } catch (Fermata\Exception\MisuseError $error) { echo "no channels\n"; }
exit(7);
PHP);
echo $server->get('/'), "\n";
var_dump($server->stop());
$lines = array_count_values(explode("\n", trim($server->output())));
ksort($lines);
print_r($lines);
?>
--EXPECT--
200 x
int(7)
Array
(
    [after run] => 1
    [destructor] => 3
    [no channels] => 1
    [once] => 1
    [run() was called; routes are registered before it, and it is called once] => 2
    [shutdown] => 3
)
