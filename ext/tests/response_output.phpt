--TEST--
Response::output() sends what its callable prints while it runs, with back-pressure
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/now', fn () => Response::text('now'));
$server->any('/pieces', fn (Request $r) => Response::output(function () use ($r) {
    echo 'one ';
    printf('%s ', 'two');
    ob_start(fn (string $text) => strtoupper($text));
    echo 'three';
    ob_end_flush();
    ob_start();
    echo ' left open';
}, 201, ['X-Own' => '1', 'Content-Type' => 'text/own']));
$server->get('/flushed', fn () => Response::output(function () { echo 'first'; flush(); delay(0.01); echo 'second'; flush(); delay(0.01); print 'third'; }));
$server->get('/file', fn () => Response::output(function () { readfile(__FILE__, false); }));
$server->get('/nothing', fn () => Response::output(function () {}));
$server->get('/exit', fn () => Response::output(function () { echo 'before'; exit(2); }));
$server->get('/throws', fn () => Response::output(function () { echo 'before'; throw new Exception('broken'); }));
$server->get('/flood', fn () => Response::output(function () {
    $sent = 0;
    try {
        for (;;) { echo str_repeat('x', 10000); $sent++; }
    } catch (Throwable $e) {
        error_log($e::class . ($sent < 5000 ? ' bounded' : " unbounded: $sent"));
        throw $e;
    } finally { error_log('finally'); }
}));
$server->get('/large', fn () => Response::output(function () { echo str_repeat('y', 3000000); }));
$server->get('/task', fn () => Response::output(function () { echo 'a'; await(async(function () { echo "from a task\n"; })); echo 'b'; }));
$server->get('/after', function () { echo "to standard output\n"; return Response::text('after'); });
PHP);
foreach (['/pieces', '/flushed', '/nothing', '/exit', '/task', '/after'] as $target) {
    $connection = $server->connect();
    $connection->start('GET', $target);
    [$status, $headers] = $connection->head();
    echo $status, ' ', $headers['content-type'][0], ' ', $headers['x-own'][0] ?? '-', ' ', isset($headers['content-length']) ? $connection->take((int) $headers['content-length'][0]) : $connection->chunks(), "\n";
}
$head = $server->connect()->request('HEAD', '/pieces');
echo $head->status, ' ', $head->header('transfer-encoding'), "\n";
$connection = $server->connect();
$connection->start('GET', '/large');
$connection->head();
echo strlen($connection->chunks()), "\n";
echo strlen($server->get('/now')), "\n";

$connection = $server->connect();
$connection->start('GET', '/throws');
$connection->head();
try { echo $connection->chunks(), "\n"; } catch (Exception $e) { echo "not whole\n"; }

// Other clients are served while one does not read, and printing stops when it leaves.
$slow = $server->connect();
$slow->start('GET', '/flood');
$slow->head();
echo $server->get('/now'), "\n";
$slow->cut();
for ($deadline = microtime(true) + WAIT_S; !str_contains($server->log(), 'finally') && microtime(true) < $deadline; usleep(1000)) {}
echo $server->get('/now'), "\n";
preg_match_all('/(\S+ bounded|unbounded|finally|Exception: broken)/', $server->log(), $found);
echo implode("\n", $found[0]), "\n", $server->output();
?>
--EXPECT--
201 text/own 1 one two THREE left open
200 text/plain; charset=utf-8 - firstsecondthird
200 text/plain; charset=utf-8 - 
200 text/plain; charset=utf-8 - before
200 text/plain; charset=utf-8 - ab
200 text/plain; charset=utf-8 - after
201 chunked
3000000
7
not whole
200 now
200 now
Exception: broken
Fermata\Exception\ClientGoneException bounded
finally
from a task
to standard output
