--TEST--
A stream that a task waits for is read by one at a time, written meanwhile and not closed by another; one that is kept goes on when a wait in it has ended
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Streams);
$say = function (callable $call) { try { return var_export($call(), true); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); } };
$server->get('/shared', function () use ($say) {
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $task = async(fn () => fgets($a));
    delay(0.001);
    $next = async(fn () => fgets($a));
    foreach ([fn () => fwrite($a, 'x'), fn () => fread($b, 1), fn () => @fclose($a), fn () => is_resource($a)] as $call) { echo $say($call), "\n"; }
    fwrite($b, "line\nnext\n");
    echo $say(fn () => await($task)), $say(fn () => await($next)), $say(fn () => fclose($a)), "\n";
    return Response::text('done');
});
$server->get('/ended', function () use ($say) {
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    Fermata\Runtime::keepOnCancel($a);
    echo $say(fn () => timeout(0.01, fn () => fgets($a))), "\n";
    fwrite($b, "a line\n");
    echo $say(fn () => fgets($a)), $say(fn () => feof($a)), "\n";
    stream_set_timeout($a, 0, 1000);
    echo $say(fn () => fgets($a)), $say(fn () => stream_get_meta_data($a)['timed_out']), "\n";
    stream_set_timeout($a, 60);
    $task = async(fn () => fread($a, 10));
    delay(0.001);
    $task->cancel();
    echo $say(fn () => await($task)), "\n";
    return Response::text('done');
});
$server->get('/library', function () use ($say) {
    // A library that keeps its stream: after an interrupted response it must not read the next response as its own.
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $name = stream_socket_get_name($listener, false);
    echo $say(fn () => timeout(0.01, fn () => file_get_contents("http://$name/"))), "\n";
    $peer = stream_socket_accept($listener, 5);
    stream_get_contents($peer);
    echo feof($peer) ? "closed\n" : "open\n";
    return Response::text('done');
});
$server->get('/handling', function () use ($say) {
    // While it opens the URL, the constructor turns warnings into exceptions, but not those of other tasks.
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $name = stream_socket_get_name($listener, false);
    $task = async(fn () => new SplFileObject("http://$name/"));
    delay(0.001);
    echo $say(fn () => @file_get_contents('/nowhere/at/all')), "\n";
    fclose(stream_socket_accept($listener, 5));
    echo $say(fn () => await($task)::class), "\n";
    return Response::text('done');
});
PHP);
foreach (['/shared', '/ended', '/library', '/handling'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECTF--
200 done
200 done
200 done
200 done
int(0)
1
'x'
false
true
'line
''next
'true
Fermata\Exception\TimeoutException: the time given to timeout() is over
'a line
'false
falsetrue
Fermata\Exception\CancelledException: the task was cancelled
Fermata\Exception\TimeoutException: the time given to timeout() is over
closed
false
RuntimeException: SplFileObject::__construct(http://127.0.0.1:%d/): Failed to open stream: HTTP request failed!%w
