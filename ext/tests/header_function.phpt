--TEST--
header(), setcookie() and output do not reach the client of a handler; a warning for each place says what does
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/', function () {
    header('X-Late: 1');
    setcookie('a', 'b');
    http_response_code(404);
    echo 'printed';
    return Response::text(json_encode([count(headers_list()), headers_sent(), http_response_code()]));
});
$server->get('/next', fn () => Response::text(json_encode([headers_sent(), http_response_code()])));
PHP);
foreach ([1, 2] as $_) {
    $answer = $server->get('/');
    echo $answer, ' ', $answer->header('x-late') ?? 'none', ' ', $answer->header('set-cookie') ?? 'none', "\n";
}
echo $server->get('/next'), "\n";
echo $server->output(), "\n";
echo preg_replace('/^.*\] /m', '', implode("\n", preg_grep('/reaches no client/', explode("\n", str_replace($server->folder() . '/', '', $server->log()))))), "\n";
?>
--EXPECT--
200 [0,false,false] none none
200 [0,false,false] none none
200 [false,false]
printedprinted
header() in a handler reaches no client: return a Response with headers, or $response->withHeader() in server.php:2 (GET /)
setcookie() in a handler reaches no client: return $response->withCookie() in server.php:3 (GET /)
http_response_code() in a handler reaches no client: return a Response with that status, or $response->withStatus() in server.php:4 (GET /)
what is printed in a handler reaches no client: it goes to standard output; return a Response, or write to the log with error_log() in server.php:5 (GET /)
