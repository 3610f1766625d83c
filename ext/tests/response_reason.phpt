--TEST--
withStatus() gives an answer its reason phrase; the next answer has its own
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

use Fermata\Response;

$server = new TestServer(<<<'PHP'
$server->get('/own', fn () => Response::text('own')->withStatus(404, 'Nothing To See'));
$server->get('/headers', fn () => (new Response(200, 'x', ['X-One' => '1']))->withStatus(299, 'Fine'));
$server->get('/standard', fn () => Response::text('x')->withStatus(404, 'Not Found'));
$server->get('/back', fn () => Response::text('x')->withStatus(404, 'Own')->withStatus(404));
$server->get('/stream', fn () => Response::stream(['a', 'b'])->withStatus(201, 'Streamed'));
$server->get('/etag', fn () => Response::text('x')->withHeader('ETag', '"1"')->withStatus(200, 'Own'));
$server->get('/plain', fn () => Response::text('x', 404));
PHP);
$connection = $server->connect();
foreach (['/own', '/plain', '/headers', '/standard', '/back', '/etag'] as $target) {
    $connection->start('GET', $target, $target === '/etag' ? ['If-None-Match' => '"1"'] : []);
    echo $target, ': ', $line = $connection->until("\r\n"), "\n";
    $head = $connection->until("\r\n\r\n");
    if (preg_match('/Content-Length: (\d+)/', $head, $found) && !str_contains($line, '304')) {
        $connection->take((int) $found[1]);
    }
}
$connection->start('GET', '/stream');
echo '/stream: ', $connection->until("\r\n"), "\n";
$connection->until("\r\n\r\n");
echo $connection->chunks(), "\n";
$http2 = Response::text('x')->withStatus(200, 'Own');
echo $http2->status(), ' ', (clone $http2)->status(), "\n";
foreach (["a\r\nb", str_repeat('x', 257)] as $reason) {
    try {
        Response::text('x')->withStatus(200, $reason);
    } catch (Fermata\Exception\MisuseError $e) {
        echo $e->getMessage(), "\n";
    }
}
?>
--EXPECT--
/own: HTTP/1.1 404 Nothing To See
/plain: HTTP/1.1 404 Not Found
/headers: HTTP/1.1 299 Fine
/standard: HTTP/1.1 404 Not Found
/back: HTTP/1.1 404 Not Found
/etag: HTTP/1.1 304 Not Modified
/stream: HTTP/1.1 201 Streamed
ab
200 200
the reason phrase must have no control characters and at most 256 bytes
the reason phrase must have no control characters and at most 256 bytes
