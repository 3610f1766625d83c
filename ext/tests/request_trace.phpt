--TEST--
Request::trace() is what a well-formed traceparent says
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn (Request $r) => Response::json($r->trace()));
PHP);
$parent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
echo $server->get('/', ['traceparent' => $parent]), "\n";
echo $server->get('/', ['Traceparent' => substr($parent, 0, -1) . '0', 'tracestate' => ['a=1', 'b=2']]), "\n";
echo $server->get('/'), "\n";
echo $server->get('/', ['traceparent' => [$parent, $parent]]), "\n";
echo $server->get('/', ['traceparent' => "$parent-00"]), "\n";
echo $server->get('/', ['traceparent' => strtoupper($parent)]), "\n";
?>
--EXPECT--
200 {"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","parentId":"00f067aa0ba902b7","isSampled":true,"state":""}
200 {"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","parentId":"00f067aa0ba902b7","isSampled":false,"state":"a=1, b=2"}
200 null
200 null
200 null
200 null
