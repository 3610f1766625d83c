--TEST--
the log names request, place and trace of exceptions, and has PHP's own warnings; as text and as JSON
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
function inner(string $secret) { throw new LogicException('boom'); }
$server->get('/books/{id}', function () { inner('password'); });
$server->get('/warns', function () { echo $undefined; @$undefined[1]; trigger_error('old', E_USER_DEPRECATED); return Response::text(error_get_last()['message']); });
$server->websocket('/chat', message: function () { inner('password'); });
PHP;
foreach (['text', 'json'] as $format) {
    $server = new TestServer($code, "workers: 1, log: new Log(LogFormat::from('$format'))");
    $server->request('HEAD', '/books/7');
    echo $server->get('/warns'), "\n";
    $socket = $server->socket('/chat');
    $socket->send('x');
    echo $socket->receive(), "\n";
    // Since PHP 8.4 a closure's name contains its location.
    $log = preg_replace('/\{closure:[^}]*\}/', '{closure}', str_replace($server->folder() . '/', '', $server->log()));
    if ($format === 'text') {
        preg_match_all('/^.*\] ((LogicException|WebSocket handler|PHP ).*(\n    .*)*)/m', $log, $lines);
        echo implode("\n", $lines[1]), "\n";
    } else {
        foreach (preg_grep('/boom|PHP /', explode("\n", $log)) as $line) {
            $fields = json_decode($line, true);
            unset($fields['time'], $fields['process']);
            echo json_encode($fields, JSON_UNESCAPED_SLASHES), "\n";
        }
    }
    $socket->cut();
    $server->stop();
    echo $server->output();
}
?>
--EXPECTF--
200 old
close: 1011
LogicException: boom in server.php:1 (HEAD /books/{id})
    #0 server.php(2): inner()
    #1 [PHP]: {closure}()
    #2 server.php(5): Fermata\Server->run()
PHP warning: Undefined variable $undefined in server.php:3 (GET /warns)
PHP deprecated: old in server.php:3 (GET /warns)
WebSocket handler: LogicException: boom in server.php:1 (WebSocket /chat)
    #0 server.php(4): inner()
    #1 [PHP]: {closure}()
    #2 server.php(5): Fermata\Server->run()
200 old
close: 1011
{"exception":"LogicException","file":"server.php","level":"error","line":1,"message":"LogicException: boom in server.php:1 (HEAD /books/{id})","method":"HEAD","route":"/books/{id}","trace":"#0 server.php(2): inner()\n#1 [PHP]: {closure}()\n#2 server.php(5): Fermata\\Server->run()\n"}
{"file":"server.php","level":"warning","line":3,"message":"PHP warning: Undefined variable $undefined in server.php:3 (GET /warns)","method":"GET","route":"/warns"}
{"file":"server.php","level":"warning","line":3,"message":"PHP deprecated: old in server.php:3 (GET /warns)","method":"GET","route":"/warns"}
{"exception":"LogicException","file":"server.php","level":"error","line":1,"message":"WebSocket handler: LogicException: boom in server.php:1 (WebSocket /chat)","method":"WebSocket","route":"/chat","trace":"#0 server.php(4): inner()\n#1 [PHP]: {closure}()\n#2 server.php(5): Fermata\\Server->run()\n"}
