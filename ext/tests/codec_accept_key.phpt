--TEST--
Codec::acceptKey(): the example of RFC 6455, 1.3, and keys that are none
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\WebSocket\Codec;

echo Codec::acceptKey('dGhlIHNhbXBsZSBub25jZQ=='), "\n";
foreach (['', 'dGhlIHNhbXBsZSBub25jZQ', "dGhlIHNhbXBsZSBub25jZQ=\n", 'dGhlIHNhbXBsZSBub25jZWFh', 'dGhlIHNhbXBsZSBub25jZR=='] as $key) {
    thrown(fn() => Codec::acceptKey($key));
}
thrown(fn() => new Codec());
?>
--EXPECT--
s3pPLMBiTxaQ9kYGzzhZRbK+xOo=
Fermata\Exception\BadRequestException: Sec-WebSocket-Key is malformed; send 16 random bytes in base64
Fermata\Exception\BadRequestException: Sec-WebSocket-Key is malformed; send 16 random bytes in base64
Fermata\Exception\BadRequestException: Sec-WebSocket-Key is malformed; send 16 random bytes in base64
Fermata\Exception\BadRequestException: Sec-WebSocket-Key is malformed; send 16 random bytes in base64
Fermata\Exception\BadRequestException: Sec-WebSocket-Key is malformed; send 16 random bytes in base64
Error: Call to private Fermata\WebSocket\Codec::__construct() from global scope
