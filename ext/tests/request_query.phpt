--TEST--
Request::query() and queries(): parse_str() rules, defaults
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn (Request $r) => Response::json([
    $r->query('a'), $r->query('b', 'default'), $r->query('list', 'array'), $r->query('0'), $r->queries(),
]));
PHP);
echo $server->get('/'), "\n";
echo $server->get('/?a=1%202&b=&list[]=x&list[]=y&m[k]=v&0=zero'), "\n";
echo $server->get('/?a=1&a=%C3%BC+2&b'), "\n";
?>
--EXPECT--
200 [null,"default","array",null,[]]
200 ["1 2","","array","zero",{"a":"1 2","b":"","list":["x","y"],"m":{"k":"v"},"0":"zero"}]
200 ["ü 2","","array",null,{"a":"ü 2","b":""}]
