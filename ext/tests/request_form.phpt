--TEST--
Request::form() and forms(): urlencoded bodies only
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->post('/', fn (Request $r) => Response::json([$r->form('name'), $r->form('x', 'default'), $r->form('list'), $r->forms()]));
PHP);
$body = 'name=J%C3%BCrgen+A&list[]=1';
foreach (['application/x-www-form-urlencoded', 'Application/X-WWW-Form-Urlencoded; charset=utf-8', 'text/plain',
    'application/x-www-form-urlencodedly'] as $type) {
    echo $server->request('POST', '/', ['Content-Type' => $type], $body), "\n";
}
echo $server->request('POST', '/', [], $body), "\n";
?>
--EXPECT--
200 ["Jürgen A","default",null,{"name":"Jürgen A","list":["1"]}]
200 ["Jürgen A","default",null,{"name":"Jürgen A","list":["1"]}]
200 [null,"default",null,[]]
200 [null,"default",null,[]]
200 [null,"default",null,[]]
