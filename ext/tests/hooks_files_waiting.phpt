--TEST--
Hook::Files: others go on while a file is waited for; order of writers, what a client that leaves ends, where nothing waits
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Files);
$say = function (callable $call) { try { return var_export($call(), true); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); } };
/** Returns whether another task ran before $call returned. It may not, since the operation may end before that task's turn. */
$lets = function (callable $call, int $times) {
    for ($i = 0, $during = false; $i < $times && !$during; $i++) {
        $ran = false;
        $task = async(function () use (&$ran) { $ran = true; });
        @$call();
        $during = $ran;
        await($task);
    }
    return $during ? 'waits' : 'blocks';
};
$server->get('/lets', function () use ($lets) {
    file_put_contents('a', 'text');
    $f = fopen('a', 'r+');
    $waits = [
        'read' => fn () => file_get_contents('a'), 'write' => fn () => file_put_contents('b', 'text'), 'append' => fn () => file_put_contents('b', 'more', FILE_APPEND),
        'stat' => fn () => is_file('b'), 'copy' => fn () => copy('a', 'c'), 'fsync' => fn () => fsync($f), 'ftruncate' => fn () => ftruncate($f, 2),
        'fwrite' => fn () => fwrite($f, 'x'), 'fread' => fn () => fread($f, 1), 'rename' => fn () => rename('c', 'd'), 'unlink' => fn () => unlink('d'),
        'mkdir' => fn () => mkdir('e'), 'rmdir' => fn () => rmdir('e'),
    ];
    $blocks = [
        'include' => fn () => include 'code.php', 'require in a function' => fn () => (function () { require 'code.php'; })(),
        'highlight_file' => fn () => highlight_file('code.php', true),
    ];
    // PHP allows switches in destructors since 8.4.
    $destructor = function () { new class { function __destruct() { file_get_contents('a'); } }; };
    PHP_VERSION_ID < 80400 ? $blocks['destructor'] = $destructor : $waits['destructor'] = $destructor;
    // io_uring may immediately return data from the page cache.
    if (getenv('FERMATA_FILE_IO') === 'auto') { unset($waits['fread']); }
    foreach ($waits as $name => $call) { if ($lets($call, 10000) !== 'waits') { echo "$name blocks\n"; } }
    foreach ($blocks as $name => $call) { if ($lets($call, 10) !== 'blocks') { echo "$name waits\n"; } }
    return Response::text('done');
});
$server->get('/order', function () {
    $log = fopen('written', 'a');
    $tasks = [];
    for ($i = 0; $i < 50; $i++) { $tasks[] = async(fn () => fwrite($log, "$i\n")); }
    foreach ($tasks as $task) { await($task); }
    $same = file_get_contents('written') === implode("\n", range(0, 49)) . "\n";
    $tasks = [];
    for ($i = 0; $i < 50; $i++) { $tasks[] = async(fn () => file_put_contents('appended', "$i\n", FILE_APPEND)); }
    foreach ($tasks as $task) { await($task); }
    return Response::text(var_export($same, true) . ' ' . count(array_unique(file('appended'))));
});
$server->get('/shared', function () use ($say) {
    file_put_contents('lines', "one\ntwo\nthree\n");
    $f = fopen('lines', 'r+');
    $task = async(fn () => fgets($f));
    delay(0);
    foreach ([fn () => fgets($f), fn () => fseek($f, 0), fn () => @fclose($f)] as $call) { echo $say($call), "\n"; }
    echo $say(fn () => await($task)), $say(fn () => fgets($f)), $say(fn () => fclose($f)), "\n";
    return Response::text('done');
});
$server->get('/lock', function () use ($say) {
    $mine = fopen('lock', 'w');
    $other = fopen('lock', 'w');
    flock($mine, LOCK_EX);
    echo $say(fn () => flock($other, LOCK_EX | LOCK_NB)), $say(fn () => timeout(0.02, fn () => flock($other, LOCK_EX))), "\n";
    $task = async(fn () => flock($other, LOCK_SH));
    delay(0.005);
    flock($mine, LOCK_UN);
    echo $say(fn () => await($task)), "\n";
    return Response::text('done');
});
$server->get('/cut', function () {
    // A started operation completes, and later writes follow it.
    for ($i = 0; $i < 20; $i++) {
        $f = fopen("cut$i", 'w');
        $task = async(fn () => fwrite($f, 'first '));
        delay(0);
        $task->cancel();
        try { await($task); } catch (Fermata\Exception\CancelledException) { }
        fwrite($f, 'second');
        fclose($f);
        $texts[] = file_get_contents("cut$i");
        unlink("cut$i");
    }
    return Response::text(implode(', ', array_unique($texts)));
});
PHP;
foreach (FILE_IO as $io) {
    $server = new TestServer($code, environment: ['FERMATA_FILE_IO' => $io, 'FERMATA_FILE_INLINE_BYTES_MAX' => '0']);
    chdir($server->folder());
    file_put_contents('code.php', '<?php return 1;');
    foreach (['/lets', '/order', '/shared', '/lock', '/cut'] as $target) {
        echo $server->get($target), "\n";
    }
    var_dump($server->stop());
    echo $server->output(), $server->logged('/error/');
}
?>
--EXPECT--
200 done
200 true 50
200 done
200 done
200 first second
int(0)
Fermata\Exception\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
Fermata\Exception\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
false
'one
''two
'true
falseFermata\Exception\TimeoutException: the time given to timeout() is over
true
200 done
200 true 50
200 done
200 done
200 first second
int(0)
Fermata\Exception\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
Fermata\Exception\MisuseError: another handler or task waits for this stream; give each its own connection, or let one wait for the other with Fermata\Sync\Mutex
false
'one
''two
'true
falseFermata\Exception\TimeoutException: the time given to timeout() is over
true
