--TEST--
Hook::Streams: TLS handshakes, reading and writing wait without holding the worker; a wait that is ended ends the connection
--EXTENSIONS--
fermata
openssl
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Streams);
$key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
openssl_x509_export(openssl_csr_sign(openssl_csr_new(['commonName' => 'test'], $key), null, $key, 1), $certificate);
openssl_pkey_export($key, $pem);
file_put_contents($file = getcwd() . '/certificate.pem', $certificate . $pem);
$context = stream_context_create(['ssl' => ['local_cert' => $file, 'verify_peer' => false, 'verify_peer_name' => false]]);
$listener = stream_socket_server('tcp://127.0.0.1:0', $code, $message, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
$name = stream_socket_get_name($listener, false);

/** Both ends are in one worker: neither handshake could complete if one blocked the worker. */
$pair = function () use ($listener, $name, $context) {
    [$theirs, $ours] = all(
        function () use ($listener) {
            $stream = stream_socket_accept($listener, 30);
            stream_socket_enable_crypto($stream, true, STREAM_CRYPTO_METHOD_TLS_SERVER);
            return $stream;
        },
        fn () => stream_socket_client("tls://$name", $code, $message, 30, STREAM_CLIENT_CONNECT, $context),
    );
    return [$theirs, $ours];
};
$server->get('/echo', function () use ($pair) {
    [$theirs, $ours] = $pair();
    $task = async(fn () => strrev(fgets($theirs)));
    delay(0.001);
    fwrite($ours, "over TLS\n");
    return Response::text(trim(await($task)) . ' ' . stream_get_meta_data($ours)['crypto']['protocol']);
});
$server->get('/much', function () use ($pair) {
    [$theirs, $ours] = $pair();
    $task = async(function () use ($theirs) { $len = 0; while ($len < 2_000_000) { $len += strlen(fread($theirs, 65536)); } fwrite($theirs, "$len\n"); });
    $written = 0;
    for ($i = 0; $i < 20; $i++) { $written += fwrite($ours, str_repeat('x', 100_000)); }
    return Response::text("$written " . trim(fgets($ours)));
});
$server->get('/timeout', function () use ($pair) {
    [$theirs, $ours] = $pair();
    stream_set_timeout($ours, 0, 20000);
    return Response::text(var_export(fread($ours, 10), true) . var_export(stream_get_meta_data($ours)['timed_out'], true));
});
$server->get('/cut', function () use ($pair) {
    [$theirs, $ours] = $pair();
    try { timeout(0.01, fn () => @fread($ours, 10)); } catch (Fermata\Exception\TimeoutException $e) { echo $e->getMessage(), "\n"; }
    return Response::text(var_export(fread($ours, 10), true) . var_export(feof($ours), true) . var_export(@fread($theirs, 10) ?: null, true));
});
$server->get('/refused', function () use ($listener, $name) {
    [$theirs, $ours] = all(
        function () use ($listener) { $s = stream_socket_accept($listener, 30); fwrite($s, "no TLS here\n"); return fread($s, 100) !== ''; },
        fn () => @stream_socket_client("tls://$name", $code, $message, 30),
    );
    return Response::text(var_export($theirs, true) . var_export($ours, true));
});
PHP);
foreach (['/echo', '/much', '/timeout', '/cut', '/refused'] as $target) {
    echo $server->get($target), "\n";
}
var_dump($server->stop());
echo $server->output(), $server->logged('/error/');
?>
--EXPECT--
200 SLT revo TLSv1.3
200 2000000 2000000
200 falsetrue
200 ''trueNULL
200 truefalse
int(0)
the time given to timeout() is over
