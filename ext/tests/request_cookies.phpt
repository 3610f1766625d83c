--TEST--
Request::cookie() and cookies(), and that withCookie() comes back unchanged
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', fn (Request $r) => Response::json([$r->cookie('a'), $r->cookie('z', 'default'), $r->cookies()]));
$server->get('/set', fn (Request $r) => Response::accepted()->withCookie('a', "v;=,\" \u{fc}%")->withCookie('b', '1'));
PHP);
echo $server->get('/'), "\n";
echo $server->get('/', ['Cookie' => 'a=1; b.c = "2" ;;=x; d; a=second; e=x%20y+z; 12=n']), "\n";
echo $server->get('/', ['Cookie' => ['a=1', 'b=2']]), "\n";
$lines = $server->get('/set')->headers['set-cookie'];
$pairs = array_map(fn($line) => strtok($line, ';'), $lines);
echo $server->get('/', ['Cookie' => implode('; ', $pairs)]), "\n";
?>
--EXPECT--
200 [null,"default",[]]
200 ["1","default",{"a":"1","b.c ":" \"2\"","e":"x y+z","12":"n"}]
200 ["1","default",{"a":"1","b":"2"}]
200 ["v;=,\" ü%","default",{"a":"v;=,\" ü%","b":"1"}]
