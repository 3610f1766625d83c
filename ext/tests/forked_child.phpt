--TEST--
A process that a handler forks may exit; it does not become a second worker
--EXTENSIONS--
fermata
pcntl
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn () => Response::text((string) getmypid()));
$server->get('/fork', function () {
    $pid = pcntl_fork();
    if ($pid === 0) { exit(5); }
    pcntl_waitpid($pid, $status);
    return Response::text('child ' . pcntl_wexitstatus($status));
});
PHP);
$pid = $server->get('/')->body;
echo $server->get('/fork'), "\n";
var_dump($server->get('/')->body === $pid);
?>
--EXPECT--
200 child 5
bool(true)
