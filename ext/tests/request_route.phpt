--TEST--
Request::route(): parameters by name, decoded; an unknown name is a MisuseError
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/rooms/{id}', fn (Request $r) => Response::text('room ' . $r->route('id')));
$server->get('/rooms/new', fn (Request $r) => Response::text('literal'));
$server->get('/rooms/{id}/messages/{n}', fn (Request $r) => Response::text($r->route('n') . ' of ' . $r->route('id')));
$server->get('/files/{path...}', fn (Request $r) => Response::text('file ' . $r->route('path')));
$server->get('/wrong/{id}', fn (Request $r) => Response::text($r->route('name')));
$server->get('/none', fn (Request $r) => Response::text($r->route('name')));
PHP);
foreach (['/rooms/7', '/rooms/new', '/rooms/a%20%C3%BC', '/rooms/7/messages/9', '/files/a/b.txt', '/wrong/1', '/none'] as $target) {
    echo $server->get($target), "\n";
}
echo preg_replace('/^.*(Fermata.*) in (\S+:\d+).*$/m', '$1 in $2', $server->logged('/parameter/')), "\n";
?>
--EXPECTF--
200 room 7
200 literal
200 room a ü
200 9 of 7
200 file a/b.txt
500 %s
%A
500 %s
%A
Fermata\Exception\MisuseError: the route has no parameter {name}; the first it has is {id} in server.php:5
Fermata\Exception\MisuseError: the route has no parameter {name}; its pattern has none at all in server.php:6
