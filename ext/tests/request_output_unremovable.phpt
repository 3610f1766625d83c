--TEST--
A buffer that its handler cannot end ends with it: nothing of what is in it reaches the next client
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Limits, Request, Response, Server};
use Fermata\Testing\Engine;

$server = new Server(limits: new Limits(handlers: 1));
$server->get('/{what}', function (Request $request) {
    $request->fillGlobals();
    $what = $request->route('what');
    if ($what === 'relayed' || $what === 'exit') {
        ob_start(null, 0, 0);
        print "secret of $what ";
    }
    if ($what === 'exit') {
        exit;
    }
    if ($what === 'output') {
        return Response::output(function (): void {
            ob_start(null, 0, 0);
            print 'all of it';
        });
    }
    print 'printed ';
    if ($what === 'next') {
        @ob_flush();
    }
    return Response::relayed(200, 'body ' . ob_get_level(), []);
});
$answers = '';
$engine = new Engine($server);
foreach (['relayed', 'next', 'exit', 'next', 'output', 'next'] as $what) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "GET /$what HTTP/1.0\r\nHost: test\r\n\r\n");
    $engine->run();
    stream_set_blocking($client, false);
    $answers .= "$what: " . explode("\r\n\r\n", stream_get_contents($client), 2)[1] . "\n";
}
echo $answers;
?>
--EXPECT--
relayed: secret of relayed printed body 1
next: printed body 0
exit: secret of exit 
next: printed body 0
output: all of it
next: printed body 0
