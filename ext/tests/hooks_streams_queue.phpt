--TEST--
Streams and sockets that handlers share are queued for until their owner has ended; within one handler one task reads while another writes
--EXTENSIONS--
fermata
sockets
openssl
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
use Fermata\Pool;

Fermata\Runtime::hook(...Fermata\Hook::cases());
$say = function (callable $call) { try { return var_export($call(), true); } catch (Throwable $e) { return $e::class . ': ' . preg_replace('~/\S+\.php:\d+~', 'FILE', $e->getMessage()); } };
$pair = fn () => stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
/** Replies to each line with a delay. */
$answer = function ($peer) { while (($line = fgets($peer)) !== false) { delay(0.001); fwrite($peer, 'to ' . $line); } };
[$shared, $peer] = $pair();
/** An unknown protocol in which two lines belong together. */
$server->get('/shared/{id}', function (Request $request) use ($shared) {
    $id = $request->route('id');
    fwrite($shared, "$id-1\n");
    $first = fgets($shared);
    delay(0.001);
    fwrite($shared, "$id-2\n");
    return Response::text(trim($first) . ' ' . trim(fgets($shared)));
});
$server->get('/start', function () use ($server, $peer, $answer) { $server->defer(fn () => $answer($peer)); return Response::text('started'); });
socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $sockets);
$server->get('/start-sockets', function () use ($server, $sockets) {
    $server->defer(function () use ($sockets) { while (($line = socket_read($sockets[1], 100)) !== '') { delay(0.001); socket_write($sockets[1], "to $line"); } });
    return Response::text('started');
});
$server->get('/socket/{id}', function (Request $request) use ($sockets) {
    $id = $request->route('id');
    socket_write($sockets[0], "$id-1");
    $first = socket_read($sockets[0], 100);
    delay(0.001);
    socket_write($sockets[0], "$id-2");
    return Response::text($first . ' ' . socket_read($sockets[0], 100));
});
$server->get('/tasks', function () use ($pair, $answer) {
    [$mine, $peer] = $pair();
    $task = async(fn () => $answer($peer));
    $ask = fn (string $what) => function () use ($mine, $what) { fwrite($mine, "$what\n"); return trim(fgets($mine)); };
    return Response::text(implode(' ', all(...array_map($ask, ['one', 'two', 'three', 'four']))));
});
/** One task reads until the end; others write and must not wait for it. */
$duplex = function ($mine, $peer) {
    $reader = async(function () use ($mine) { fwrite($mine, "hello\n"); $lines = []; while (count($lines) < 3) { $lines[] = trim(fgets($mine)); } return implode(' ', $lines); });
    $large = str_repeat('x', 1_000_000) . "\n";
    echo trim(fgets($peer)), ' ';
    fwrite($peer, "first\n");
    delay(0.001);
    $writers = [async(fn () => fwrite($mine, $large)), async(fn () => fwrite($mine, "small\n"))];
    delay(0.001);
    fwrite($peer, "second\n");
    $len = strlen(fgets($peer, 2_000_000));
    fwrite($peer, "third\n");
    echo $len, ' ', trim(fgets($peer)), ' ', await($reader), ' ', implode(' ', array_map('Fermata\await', $writers)), ' ';
    stream_set_timeout($mine, 0, 1000);
    echo var_export(fgets($mine), true), var_export(stream_get_meta_data($mine)['timed_out'], true), "\n";
};
$server->get('/duplex', function () use ($pair, $duplex) { $duplex(...$pair()); return Response::text('done'); });
$server->get('/duplex-tls', function () use ($duplex) {
    $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
    openssl_x509_export(openssl_csr_sign(openssl_csr_new(['commonName' => 'test'], $key), null, $key, 1), $certificate);
    openssl_pkey_export($key, $pem);
    file_put_contents($file = getcwd() . '/certificate.pem', $certificate . $pem);
    $context = stream_context_create(['ssl' => ['local_cert' => $file, 'verify_peer' => false, 'verify_peer_name' => false]]);
    $listener = stream_socket_server('tcp://127.0.0.1:0', $code, $message, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
    [$peer, $mine] = all(
        function () use ($listener) { $stream = stream_socket_accept($listener, 30); stream_socket_enable_crypto($stream, true, STREAM_CRYPTO_METHOD_TLS_SERVER); return $stream; },
        fn () => stream_socket_client('tls://' . stream_socket_get_name($listener, false), $code, $message, 30, STREAM_CLIENT_CONNECT, $context),
    );
    $duplex($mine, $peer);
    return Response::text('done');
});
$server->get('/accept', function () {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $accepts = [async(fn () => stream_socket_accept($listener, 30)), async(fn () => stream_socket_accept($listener, 30))];
    delay(0.001);
    $clients = array_map(fn () => stream_socket_client('tcp://' . stream_socket_get_name($listener, false)), [1, 2]);
    return Response::text(implode(' ', array_map(fn ($accept) => get_resource_type(await($accept)), $accepts)));
});
/** Stops the tasks that reply. */
$server->get('/stop', function () use ($shared, $sockets) { fclose($shared); socket_close($sockets[0]); return Response::text('stopped'); });
/** Of two handlers, the second waits until the first has closed or released the stream, or until the time-out. */
$server->get('/hold/{how}', function (Request $request) use (&$held, $pair, $say) {
    [$held, $peer] = $pair();
    $mutex = new Mutex();
    $write = function () use (&$held) { fwrite($held, "first\n"); };
    match ($request->route('how')) {
        'mutex' => $mutex->synchronized($write),
        'pool' => (new Pool(fn () => $held, 1))->use($write),
        default => $write(),
    };
    $request->route('how') === 'kept' && Fermata\Runtime::keepOnCancel($held);
    touch('held');
    do { delay(0.005); clearstatcache(); } while (!is_file('queued'));
    delay(0.02);
    $closed = $request->route('how') === 'close' ? $say(fn () => fclose($held)) . ' ' : '';
    do { delay(0.005); clearstatcache(); } while (!is_file('told'));
    return Response::text($closed . strtr(stream_get_contents($peer, $closed ? -1 : 6), "\n", ' '));
});
$server->get('/next', function () use (&$held, $say) {
    touch('queued');
    $told = $say(fn () => fwrite($held, "second\n"));
    touch('told');
    return Response::text($told);
});
PHP;
$extensions = [...(is_file(ini_get('extension_dir') . '/openssl.so') ? ['-dextension=openssl'] : []), '-dextension=sockets'];
$server = new TestServer($code, ini: $extensions);
$many = function (string $target) use ($server) {
    $asked = [];
    foreach (range(1, 20) as $id) { $asked[$id] = $server->connect(); $asked[$id]->start('GET', "/$target/$id"); }
    $right = 0;
    foreach ($asked as $id => $connection) { $got = (string) $connection->answer(); $right += $got === "200 to $id-1 to $id-2"; $wrong = $right === $id ? '' : $got; }
    echo "$target: $right $wrong\n";
};
echo $server->get('/start'), ' ', $server->get('/start-sockets'), "\n";
$many('shared');
$many('socket');
foreach (['/tasks', '/duplex', '/duplex-tls', '/accept'] as $target) { echo $target, ': ', $server->get($target), "\n"; }
$hold = function (TestServer $server, string $how) {
    array_map('unlink', array_filter(array_map(fn ($name) => $server->folder() . "/$name", ['held', 'queued', 'told']), 'is_file'));
    ($first = $server->connect())->start('GET', "/hold/$how");
    do { usleep(5000); clearstatcache(); } while (!is_file($server->folder() . '/held'));
    ($next = $server->connect())->start('GET', '/next');
    echo "$how: ", $next->answer(), ', ', $first->answer(), "\n";
};
foreach (['mutex', 'pool', 'kept', 'close'] as $how) { $hold($server, $how); }
echo $server->get('/stop'), "\n";
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
$server = new TestServer($code, ini: [...$extensions, '-dfermata.shared_wait_timeout_ms=50']);
$hold($server, 'end');
var_dump($server->stop());
?>
--EXPECT--
200 started 200 started
shared: 20 
socket: 20 
/tasks: 200 to one to two to three to four
/duplex: 200 done
/duplex-tls: 200 done
/accept: 200 stream stream
mutex: 200 7, 200 first 
pool: 200 7, 200 first 
kept: 200 7, 200 first 
close: 200 false, 200 true first 
200 stopped
int(0)
hello 1000001 small first second third 1000001 6 falsetrue
hello 1000001 small first second third 1000001 6 falsetrue
end: 200 Fermata\Exception\TimeoutException: after 50 ms (shared_wait_timeout_ms) another handler or task still uses this connection, in FILE; give handlers connections of a Fermata\Pool, 200 first 
int(0)
