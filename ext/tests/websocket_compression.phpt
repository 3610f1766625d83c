--TEST--
Compression: what is agreed, what is sent compressed, what comes compressed
--EXTENSIONS--
fermata
zlib
--FILE--
<?php
require __DIR__ . '/server.inc';

use Fermata\WebSocket\Codec;

$server = new TestServer(<<<'PHP'
$echo = fn (WebSocket $socket, Message $message) => $socket->send($message);
$server->websocket('/plain', message: $echo);
$server->websocket('/each', message: $echo, options: new Options(compression: new Compression(minBytes: 100)));
$server->websocket('/takeover', message: $echo, options: new Options(compression: new Compression(serverContextTakeover: true)));
$server->websocket('/channel', open: fn (WebSocket $socket) => $socket->join('room'),
    message: fn (WebSocket $socket, Message $message) => Channel::get('room')->publish(new Event((string) $message)),
    options: new Options(compression: new Compression()));
PHP);

/** Opens a connection; returns it with the negotiated extension. */
function opened(TestServer $server, string $path, string $offer = 'permessage-deflate; client_max_window_bits'): Connection
{
    $connection = $server->connect();
    $connection->start('GET', $path, ['Connection' => 'Upgrade', 'Upgrade' => 'websocket', 'Sec-WebSocket-Version' => '13',
        'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Extensions' => $offer]);
    [, $headers] = $connection->head();
    echo $path, ': ', $headers['sec-websocket-extensions'][0] ?? 'nothing agreed', "\n";
    return $connection;
}

/** Prints the next message and whether it was compressed; returns the bytes of its payload on the wire. */
function told(Connection $connection, ?InflateContext $context = null): int
{
    $frame = $connection->frame(mayBeCompressed: true);
    $text = $frame->payload;
    if ($frame->rsv1) {
        $context ??= inflate_init(ZLIB_ENCODING_RAW);
        $text = inflate_add($context, "$text\x00\x00\xff\xff", ZLIB_SYNC_FLUSH);
    }
    echo $frame->rsv1 ? 'compressed: ' : 'as it is: ', strlen($text) > 20 ? substr($text, 0, 10) . '…' . strlen($text) : $text, "\n";
    return strlen($frame->payload);
}

$long = str_repeat('many words ', 100);
$say = fn (Connection $connection, string $text) => $connection->send(Codec::encode($text, masked: true));

$plain = opened($server, '/plain');
$say($plain, $long);
var_dump(told($plain) === strlen($long));

$each = opened($server, '/each');
$say($each, 'short');
told($each);
$say($each, $long);
var_dump(told($each) < 100);
$compressed = substr(deflate_add(deflate_init(ZLIB_ENCODING_RAW), $long, ZLIB_SYNC_FLUSH), 0, -4);
$each->send(Codec::encode($compressed, masked: true, rsv1: true));
told($each);

$takeover = opened($server, '/takeover');
$context = inflate_init(ZLIB_ENCODING_RAW);
$other = json_encode(array_map(fn (int $n) => ['user' => hash('crc32b', "$n"), 'says' => 'hello'], range(1, 50)));
$say($takeover, $other);
$first = told($takeover, $context);
$say($takeover, $other);
var_dump(told($takeover, $context) < $first / 4);

$readers = [opened($server, '/channel'), opened($server, '/channel'), opened($server, '/channel', 'x-unknown')];
$say($readers[0], $long);
array_map(told(...), $readers);
?>
--EXPECT--
/plain: nothing agreed
as it is: many words…1100
bool(true)
/each: permessage-deflate; server_no_context_takeover; client_no_context_takeover
as it is: short
compressed: many words…1100
bool(true)
compressed: many words…1100
/takeover: permessage-deflate; client_no_context_takeover
compressed: [{"user":"…1751
compressed: [{"user":"…1751
bool(true)
/channel: permessage-deflate; server_no_context_takeover; client_no_context_takeover
/channel: permessage-deflate; server_no_context_takeover; client_no_context_takeover
/channel: nothing agreed
compressed: many words…1100
compressed: many words…1100
as it is: many words…1100