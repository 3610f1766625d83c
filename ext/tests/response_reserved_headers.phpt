--TEST--
Response: headers that frame the message are the server's
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Hold, Response};

foreach (['Content-Length', 'transfer-encoding', 'Connection', 'Keep-Alive', 'Upgrade', 'Trailer', 'TE'] as $name) {
    thrown(fn() => Response::accepted()->withHeader($name, '1'));
}
thrown(fn() => new Response(200, '', ['content-length' => '0']));
thrown(fn() => Hold::sse('a')->withHeader('Content-Type', 'text/plain'));
?>
--EXPECTREGEX--
(Fermata\\Exception\\MisuseError: header "[A-Za-z-]+" frames the message and is the server's to send; leave it out\n){8}Fermata\\Exception\\MisuseError: the Content-Type of held clients is text\/event-stream; leave it out
