--TEST--
A process that a handler forks may exit; one that comes back does not become a second worker
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
$server->get('/back', function () {
    $pid = pcntl_fork();
    if ($pid > 0) { pcntl_waitpid($pid, $status); }
    return Response::text('back ' . ($pid > 0 ? 'parent' : 'child'));
});
PHP);
$pid = $server->get('/')->body;
echo $server->get('/fork'), "\n", $server->get('/back'), "\n";
var_dump($server->get('/')->body === $pid);
?>
--EXPECT--
200 child 5
200 back parent
bool(true)
