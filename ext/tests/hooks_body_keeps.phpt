--TEST--
A body that is made piece by piece keeps what its handler is in the middle of: a shared connection, a transaction, a mutex
--EXTENSIONS--
fermata
pdo
pdo_sqlite
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$ask = function (string $id) use ($pair): string { return @fwrite($pair[0], "$id\n") === false ? 'broken' : (trim((string) fgets($pair[0])) ?: 'broken'); };
// More than the kernel buffers for a client that does not read.
$piece = str_repeat('.', 16 << 20);
$mutex = new Mutex();
$at = [];
$server->get('/start', function () use ($server, $pair) {
    $server->defer(function () use ($pair) {
        while (($line = fgets($pair[1])) !== false) { delay(0.002); fwrite($pair[1], "value of $line"); }
    });
    return Response::text('started');
});
$server->get('/ask/{id}', function (string $id) use ($ask, &$at) { $at[] = 'asks'; return Response::text($ask($id)); });
// The handler or one piece sends the query, and the next piece reads the reply.
$server->get('/body/{by}/{id}', function (string $by, string $id) use ($pair, $piece, &$at) {
    $by === 'handler' && fwrite($pair[0], "$id\n");
    return Response::stream(function () use ($by, $pair, $piece, $id, &$at) {
        $by === 'piece' && fwrite($pair[0], "$id\n");
        $at[] = 'first piece';
        yield $piece;
        yield trim(fgets($pair[0]));
        fwrite($pair[0], "$id-2\n");
        yield ', ';
        yield trim(fgets($pair[0]));
    });
});
$db = null;
$open = function () use (&$db) { if (!$db) { $db = new PDO('sqlite:kept'); $db->exec('CREATE TABLE t (who)'); } return $db; };
$server->get('/insert/{how}', function (string $how) use ($open, $piece, &$at) { return Response::stream(function () use ($open, $how, $piece, &$at) {
    $db = $open();
    $db->beginTransaction();
    $db->exec("INSERT INTO t VALUES ('$how 1')");
    $at[] = 'first piece';
    yield $piece;
    $db->exec("INSERT INTO t VALUES ('$how 2')");
    yield 'one more';
    $how === 'commits' && $db->commit();
}); });
$server->get('/rows', function () use ($open, &$at) {
    $at[] = 'asks';
    return Response::text(implode(', ', $open()->query('SELECT who FROM t')->fetchAll(PDO::FETCH_COLUMN)));
});
// Drop the connection: the server and its handlers form a cycle, which is not collected at the end.
$server->get('/close', function () use (&$db) { $db = null; return Response::text('closed'); });
$server->get('/locked', function () use ($mutex, $piece, &$at) {
    Context::set('user', 'alice');
    return Response::stream(function () use ($mutex, $piece, &$at) {
        $mutex->lock();
        $at[] = 'first piece';
        yield $piece;
        $at[] = 'last piece';
        yield Context::get('user', 'nobody');
        $mutex->unlock();
    });
});
$server->get('/lock', function () use ($mutex, &$at) {
    $at[] = 'asks';
    return $mutex->synchronized(function () use (&$at) { return Response::text(implode(', ', $at)); });
});
$server->get('/seen', function () use (&$at) { $seen = $at; return Response::json($seen); });
$server->get('/forget', function () use (&$at) { $at = []; return Response::text(''); });
PHP, ini: array_map(fn ($name) => "-dextension=$name", array_filter(['pdo', 'pdo_sqlite'], fn ($name) => is_file(ini_get('extension_dir') . "/$name.so"))));
$until = function (string $what) use ($server): void {
    for ($i = 0; $i < WAIT_S * 200 && !str_contains($server->get('/seen')->body, $what); $i++) { usleep(5000); }
};
/** Returns the end of a body whose client reads nothing until another client has sent a request. */
$between = function (string $body, string $other) use ($server, $until): string {
    $server->get('/forget');
    ($slow = $server->connect())->start('GET', $body);
    $until('first piece');
    ($second = $server->connect())->start('GET', $other);
    $until('asks');
    usleep(20_000);
    $slow->head();
    return ltrim($slow->chunks(), '.') . ' | ' . $second->answer();
};
echo $server->get('/start'), "\n";
echo $between('/body/handler/a', '/ask/b'), "\n";
echo $between('/body/piece/c', '/ask/d'), "\n";
echo $between('/insert/commits', '/rows'), "\n";
echo $between('/insert/leaves', '/rows'), "\n";
echo $between('/locked', '/lock'), "\n";
// A client leaves between a command and its reply.
$server->get('/forget');
($gone = $server->connect())->start('GET', '/body/piece/e');
$until('first piece');
$gone->cut();
echo $server->get('/ask/f'), "\n";
echo preg_replace('~.*the connection to (?:\S| )*? was shut down: ~m', '', $server->logged('/was shut down/')), "\n";
echo preg_replace('~.*a handler has ended~m', 'a handler has ended', $server->logged('/rolled back/')), "\n";
echo $server->get('/close'), "\n";
var_dump($server->stop());
?>
--EXPECTF--
200 started
value of a, value of a-2 | 200 value of b
value of c, value of c-2 | 200 value of d
one more | 200 commits 1, commits 2
one more | 200 commits 1, commits 2
alice | 200 first piece, asks, last piece
200 broken
a handler has ended in the middle of a reply that nobody has read
a handler has ended in the middle of a SQLite transaction, which %s
200 closed
int(0)
