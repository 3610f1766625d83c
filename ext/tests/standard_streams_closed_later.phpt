--TEST--
A handler or job that closes standard input, output and error: no connection takes their places, and gets what is printed
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$which = fn () => array_map(fn ($number) => basename((string) @readlink("/proc/self/fd/$number")), [0, 1, 2]);
$close = function () use ($which) {
    $closed = array_map('fclose', [STDIN, STDOUT, STDERR]);
    return [$closed, is_resource(STDOUT), $which()];
};
$jobs = $server->jobs(processes: 1);
$jobs->add('close', $close);
$server->get('/close', fn () => Response::json($close()));
$server->get('/job', fn () => Response::json($jobs->run('close')));
$server->get('/which', fn () => Response::json($which()));
$server->get('/print', function () {
    echo "printed\n";
    file_put_contents('php://stderr', "written\n");
    return Response::text('done');
});
PHP);
echo $server->get('/close'), "\n", $server->get('/job'), "\n";
// Each connection would get the lowest free descriptor.
$connections = [];
for ($i = 0; $i < 3; $i++) {
    $connections[] = $server->connect();
    $answer = end($connections)->request('GET', '/which');
}
echo $answer, "\n", $server->get('/print'), "\n";
var_dump($server->stop());
echo $server->output();
var_dump(str_contains($server->log(), " written\n"));
?>
--EXPECT--
200 [[true,true,true],false,["null","output","log"]]
200 [[true,true,true],false,["null","output","log"]]
200 ["null","output","log"]
200 done
int(0)
printed
bool(true)
