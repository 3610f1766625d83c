--TEST--
PHP's sessions are refused in handlers, and so is a server whose script has opened one
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
session_save_path(__DIR__);
$server->get('/{call}', function (Request $r) {
    try {
        match ($r->route('call')) {
            'start' => session_start(),
            'id' => session_id('abc'),
            'handler' => session_set_save_handler(new SessionHandler()),
            'regenerate' => session_regenerate_id(),
            'read' => throw new Exception(json_encode([session_id(), session_status(), $_SESSION ?? 'none'])),
        };
        return Response::text('done');
    } catch (Throwable $error) {
        return Response::text($error::class . ': ' . substr($error->getMessage(), 0, 70));
    } finally {
        $_SESSION['user'] = $r->cookie('PHPSESSID');
    }
});
PHP);
foreach (['start', 'id', 'handler', 'regenerate', 'read'] as $call) {
    echo $server->get("/$call", ['Cookie' => "PHPSESSID=$call"]), "\n";
}

$php = [...preg_split('/\s+/', getenv('FERMATA_PHPT_SERVER') ?: getenv('TEST_PHP_EXECUTABLE') . ' -n'), '-dsession.auto_start=1', '-dsession.save_path=' . $server->folder(), '-r',
    '(new Fermata\Server(listen: "http://127.0.0.1:0"))->run();'];
exec(implode(' ', array_map(escapeshellarg(...), $php)) . ' 2>&1', $lines);
echo implode("\n", preg_grep('/MisuseError/', $lines)), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));
?>
--EXPECTF--
200 Fermata\Exception\MisuseError: session_start() in a handler: PHP has one session for a process, and a
200 Fermata\Exception\MisuseError: session_id() in a handler: PHP has one session for a process, and all 
200 Fermata\Exception\MisuseError: session_set_save_handler() in a handler: PHP has one session for a pro
200 Fermata\Exception\MisuseError: session_regenerate_id() in a handler: PHP has one session for a proces
200 Exception: ["",1,"none"]
%AFermata\Exception\MisuseError: a session of PHP's is open, which all requests would share; set session.auto_start=0%A
