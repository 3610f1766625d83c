--TEST--
Request::deferAnswer(): the answer leaves behind the one function that runs when the handler has ended, and before where there are several
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{Limits, Request, Response, Server};
use Fermata\Testing\Engine;

$server = new Server(limits: new Limits(handlers: 1));
$seen = '';
$client = null;
$look = function () use (&$seen, &$client): void {
    stream_set_blocking($client, false);
    $seen .= fread($client, 8192) === '' ? ' not yet,' : ' answered,';
};
$server->get('/{what}', function (Request $request) use ($look) {
    $what = $request->route('what');
    if ($what !== 'without') {
        $request->fillGlobals();
    }
    register_shutdown_function($look);
    if ($what !== 'plain') {
        $request->deferAnswer();
    }
    if ($what === 'two') {
        register_shutdown_function($look);
    }
    if ($what === 'exit') {
        exit('left');
    }
    if ($what === 'throws') {
        throw new LogicException('of the handler');
    }
    if ($what === 'stream') {
        return Response::stream(['a', 'b']);
    }
    return new Response(200, 'body');
});
$engine = new Engine($server);
foreach (['plain', 'deferred', 'plain', 'two', 'exit', 'throws', 'stream', 'without'] as $what) {
    [$client, $end] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $engine->connect($end);
    fwrite($client, "GET /$what HTTP/1.1\r\nHost: test\r\n\r\n");
    $seen .= "$what:";
    $engine->run();
    $look();
    $seen .= "\n";
    fclose($client);
}
echo $seen;
?>
--EXPECT--
plain: answered, not yet,
deferred: not yet, answered,
plain: answered, not yet,
two: answered, not yet, not yet,
exit: not yet, answered,
throws: answered, not yet,
stream: answered, answered,
without: not yet, answered,
