--TEST--
SIGUSR2 ends the server in order to be started anew; a signal to stop that comes meanwhile wins, and finishes what is under way
--EXTENSIONS--
fermata
pcntl
--FILE--
<?php
require __DIR__ . '/server.inc';

foreach (['restart' => [], 'stop' => [SIGTERM], 'interrupt' => [SIGINT], 'after a stop' => null] as $name => $later) {
    $server = new TestServer(<<<'PHP'
$server->get('/slow', function () {
    delay(0.3);
    return Response::text('done');
});
PHP, after: 'echo json_encode(Fermata\Runtime::isToRestart());');
    $slow = $server->connect();
    $slow->start('GET', '/slow');
    $server->get('/none');
    $server->signal($later === null ? SIGTERM : SIGUSR2);
    $server->wait('/stopping/');
    foreach ($later ?? [SIGUSR2] as $signal) {
        $server->signal($signal);
    }
    echo "$name: ", $slow->answer(), ' ', $server->ended(), ' ', $server->output(), "\n";
}
?>
--EXPECT--
restart: 200 done 0 true
stop: 200 done 0 false
interrupt: 200 done 0 false
after a stop: 200 done 0 false
