--TEST--
WebSocket\Client: wss:// over PHP's TLS, with a certificate it trusts or not
--EXTENSIONS--
fermata
openssl
--FILE--
<?php
require __DIR__ . '/websocket_peer.inc';

use Fermata\WebSocket\Client;

$file = tempnam(sys_get_temp_dir(), 'peer');
$config = tempnam(sys_get_temp_dir(), 'peer');
file_put_contents($config, "[req]\ndistinguished_name=dn\n[dn]\n[ext]\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n");
$options = ['config' => $config, 'x509_extensions' => 'ext', 'digest_alg' => 'sha256', 'private_key_bits' => 2048];
$key = openssl_pkey_new(['curve_name' => 'prime256v1', 'private_key_type' => OPENSSL_KEYTYPE_EC, 'private_key_bits' => 2048, 'config' => $config]);
$certificate = openssl_csr_sign(openssl_csr_new(['commonName' => 'localhost'], $key, $options), null, $key, 1, $options);
openssl_x509_export($certificate, $text);
openssl_pkey_export($key, $private, null, $options);
file_put_contents($file, $text . $private);

$peer = new Peer(<<<'PHP'
    for (;;) {
        $stream = @stream_socket_accept($GLOBALS['server'], 60);
        if (!$stream) { continue; }
        $head = '';
        while (!str_ends_with($head, "\r\n\r\n")) { $head .= fread($stream, 1); }
        preg_match('/^Sec-WebSocket-Key: (.*)\r$/m', $head, $match);
        fwrite($stream, "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            . Codec::acceptKey($match[1]) . "\r\n\r\n" . Codec::encode('secret'));
        $inbox = '';
        while ($frame = take($stream)) {
            if ($frame->opcode === Opcode::Close) {
                fwrite($stream, Codec::encodeClose($frame->closeCode));
                break;
            }
            fwrite($stream, Codec::encode($frame->payload, $frame->opcode));
        }
        fclose($stream);
    }
    PHP, $file);
set_error_handler(fn (int $type, string $message) => print "handler: $message\n");
$refused = thrown(fn () => Client::connect("wss://$peer->address/", timeout: 600));
echo str_contains($refused, 'certificate verify failed') && str_starts_with($refused, 'ConnectionException 0: tls://ADDRESS cannot be reached: ') ? "not trusted\n" : $refused;
$context = stream_context_create(['ssl' => ['cafile' => $file]]);
$client = Client::connect("wss://$peer->address/", context: $context, timeout: 600);
echo $client->receive(), "\n";
var_dump($client->receive(0.05), $client->receive(timeout: 0));
$large = str_repeat('0123456789', 20_000);
$client->sendBinary($large);
var_dump($client->receive()->data() === $large);
$client->close();
var_dump($client->closeCode());
$silent = new Peer('for (;;) { $kept[] = @stream_socket_accept($server, 60); }');
echo thrown(fn () => Client::connect("wss://$silent->address/", timeout: 0.2)), "\n";
unlink($file);
unlink($config);
?>
--EXPECT--
not trusted
secret
NULL
NULL
bool(true)
int(1000)
TimeoutException 0: tls://ADDRESS cannot be reached: SSL: Handshake timed out
