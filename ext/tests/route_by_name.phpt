--TEST--
Parameters of a route fill those of its handler by name; a number that is none is 404; handlers that cannot be called are refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->use(fn (Request $r, callable $next) => $next($r));
$server->get('/text/{id}', fn (string $id) => Response::json($id));
$server->get('/number/{id}', fn (int $id) => Response::json($id));
$server->get('/both/{id}/{page}', fn (int $page, Request $request, string $id, $more = 'more') => Response::json([$page, $request->path(), $id, $more]));
$server->get('/any/{rest...}', fn ($rest) => Response::json($rest));
$server->get('/plain/{id}', fn (Request $r) => Response::json($r->route('id')));
$server->get('/none', fn () => Response::json('none'));
$server->get('/waits/{id}', function (Request $r, int $id) { delay(0.01); return Response::json([$id, $r->route('id')]); });
$server->get('/wrong/{id}', fn (int $id) => $id);
PHP);
foreach (['/text/a%20b', '/text/007', '/number/7', '/number/-7', '/number/07', '/number/x', '/number/99999999999999999999', '/both/a/2', '/any/a/b', '/plain/7', '/none', '/waits/3', '/wrong/3'] as $target) {
    $answer = $server->get($target);
    echo $target, ' ', $answer->status, ' ', $answer->status === 200 ? $answer->body : '', "\n";
}
echo preg_replace('/^.*TypeError/', 'TypeError', $server->logged('/TypeError/')), "\n";

$other = new Fermata\Server();
thrown(fn () => $other->get('/a/{id}', fn (string $name) => 1));
thrown(fn () => $other->get('/b/{id}', fn (Fermata\Request $r, string $name) => 1));
thrown(fn () => $other->get('/c/{id}', fn (float $id) => 1));
thrown(fn () => $other->get('/d', fn (Fermata\Request $r, $next) => 1));
thrown(fn () => $other->get('/e/{id}', fn (Fermata\Request $r, int $n = 1, string $id = '') => 1));
thrown(fn () => $other->get('/f', fn (Fermata\Request $r, int $n = 1) => 1));
thrown(fn () => $other->get('/g', strlen(...)));
?>
--EXPECT--
/text/a%20b 200 "a b"
/text/007 200 "007"
/number/7 200 7
/number/-7 200 -7
/number/07 404 
/number/x 404 
/number/99999999999999999999 404 
/both/a/2 200 [2,"/both/a/2","a","more"]
/any/a/b 200 "a/b"
/plain/7 200 "7"
/none 200 "none"
/waits/3 200 [3,"3"]
/wrong/3 500 
TypeError: the handler must return Fermata\Response or Fermata\Hold, int returned in server.php:9
Fermata\Exception\MisuseError: the parameter $name of the handler of /a/{id} can be given neither the Fermata\Request nor a parameter {name} of its path, which has none
Fermata\Exception\MisuseError: the parameter $name of the handler of /b/{id} can be given neither the Fermata\Request nor a parameter {name} of its path, which has none
Fermata\Exception\MisuseError: the parameter $id of the handler of /c/{id} is filled from its path; declare it as string or int
Fermata\Exception\MisuseError: the parameter $next of the handler of /d can be given neither the Fermata\Request nor a parameter {next} of its path, which has none
Fermata\Exception\MisuseError: the parameter $id of the handler of /e/{id} comes after optional ones that nothing fills; put it before them
nothing thrown
nothing thrown
