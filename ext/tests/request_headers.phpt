--TEST--
Request::header(), headers() and lastEventId()
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn (Request $r) => Response::json([
    $r->header('x-one'), $r->header('X-ONE'), $r->header('X-None'), $r->header('X-None', 'default'), $r->header(str_repeat('x', 300)),
    $r->header('Cookie'), $r->lastEventId(), $r->headers(),
]));
PHP);
echo $server->get('/', ['X-One' => 'a', 'x-oNE' => 'b', 'Cookie' => ['c=1', 'd=2'], 'Last-Event-ID' => '', '12' => 'n']), "\n";
echo $server->get('/', ['Last-Event-Id' => 'abc-9']), "\n";
?>
--EXPECT--
200 ["a, b","a, b",null,"default",null,"c=1; d=2",null,{"host":["test"],"x-one":["a","b"],"cookie":["c=1","d=2"],"last-event-id":[""],"12":["n"]}]
200 [null,null,null,"default",null,null,"abc-9",{"host":["test"],"last-event-id":["abc-9"]}]
