--TEST--
Hook::Streams: a function that was given two streams keeps both while it waits for one
--EXTENSIONS--
fermata
ftp
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(...Fermata\Hook::cases());
$say = function (callable $call): string {
    try { return json_encode($call()); } catch (Throwable $e) { return $e::class . ': ' . $e->getMessage(); }
};
$server->get('/copy', function () use ($say) {
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    [$c, $d] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $all = str_repeat('x', 2_000_000);
    $writer = async(function () use (&$a, $all) { fwrite($a, $all); fclose($a); });
    $copy = async(fn () => stream_copy_to_stream($b, $c));
    delay(0.01);
    // The copy waits for room in $c, and will read from $b again.
    echo $say(fn () => fclose($b)), "\n", $say(fn () => fclose($c)), "\n";
    $reader = async(function () use ($d) { $len = 0; while (!feof($d)) { $len += strlen(fread($d, 100000)); } return $len; });
    echo await($copy), "\n";
    echo $say(fn () => fclose($b)), ' ', $say(fn () => fclose($c)), ' ', await($reader), "\n";
    return Response::text('done');
});
$server->get('/put', function () use ($say) {
    [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    fwrite($a, 'one ');
    $put = async(fn () => file_put_contents('put', $b));
    delay(0.001);
    echo $say(fn () => fclose($b)), "\n";
    fwrite($a, 'two');
    fclose($a);
    echo await($put), ' ', file_get_contents('put'), "\n";
    return Response::text('done');
});
$server->get('/both', function () use ($say) {
    // A stream that two copies use, which end in the order of their start; then one inside which another task waits.
    $log = fopen('both', 'w+');
    $copies = [];
    foreach ([0, 1] as $i) {
        [$in[$i], $out[$i]] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $copies[$i] = async(fn () => stream_copy_to_stream($out[$i], $log));
        delay(0.001);
    }
    fclose($in[0]);
    echo 'first ', await($copies[0]), ' ', $say(fn () => @fclose($log)), "\n";
    fwrite($in[1], 'kept');
    fclose($in[1]);
    echo 'second ', await($copies[1]), ' ', $say(fn () => fclose($log)), ' ', file_get_contents('both'), "\n";

    [$near, $far] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    [$in, $out] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $read = async(fn () => fread($near, 10));
    delay(0.001);
    $copy = async(fn () => stream_copy_to_stream($out, $near));
    delay(0.001);
    fwrite($far, 'word');
    echo 'read ', await($read), ' ', $say(fn () => @fclose($near)), "\n";
    fwrite($in, 'answer');
    fclose($in);
    echo 'copied ', await($copy), ' ', fread($far, 10), ' ', $say(fn () => fclose($near)), "\n";
    return Response::text('done');
});
$server->get('/wrapper', function () use ($say) {
    // The wait is in a method of the program's stream wrapper, which the copy has called.
    stream_wrapper_register('slow', get_class(new class {
        public $context;
        public static int $pieces = 0;
        function stream_open() { return true; }
        function stream_read() { delay(0.002); return self::$pieces++ < 2 ? 'piece ' : ''; }
        function stream_eof() { return self::$pieces > 2; }
        function stream_stat() { return false; }
    }));
    $to = fopen('wrapped', 'w');
    $copy = async(fn () => stream_copy_to_stream(fopen('slow://x', 'r'), $to));
    delay(0.001);
    echo $say(fn () => @fclose($to)), ' ';
    echo await($copy), ' ', $say(fn () => fclose($to)), ' ', trim(file_get_contents('wrapped')), "\n";
    return Response::text('done');
});
$server->get('/ftp', function () use ($say) {
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    [$host, $port] = explode(':', stream_socket_get_name($listener, false));
    $peer = async(function () use ($listener) { $peer = stream_socket_accept($listener, 30); fwrite($peer, "220 ready\r\n"); return $peer; });
    $ftp = ftp_connect($host, (int) $port);
    $peer = await($peer);
    $login = async(fn () => @ftp_login($ftp, 'user', 'word'));
    echo trim(fgets($peer)), "\n";
    $close = async(fn () => $say(fn () => ftp_close($ftp)));
    delay(0.001);
    fwrite($peer, "230 come in\r\n");
    echo $say(fn () => await($login)), "\n";
    echo trim(fgets($peer)), "\n";
    fwrite($peer, "221 bye\r\n");
    echo await($close), "\n";
    fclose($peer);
    return Response::text('done');
});
PHP, ini: is_file(ini_get('extension_dir') . '/ftp.so') ? ['-dextension=ftp'] : []);
foreach (['/copy', '/put', '/both', '/wrapper', '/ftp'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo preg_replace('/ in \S+ on line \d+/', '', $server->output()), $server->logged('/error/');
?>
--EXPECTF--
200 done
200 done
200 done
200 done
200 done
int(0)
false
false
2000000
true true 2000000
false
7 one two
first 0 false
second 4 true kept
read word false
copied 6 answer true
false 12 true piece piece
USER user
true
QUIT
true
