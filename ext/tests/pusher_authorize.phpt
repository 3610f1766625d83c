--TEST--
Pusher: closures decide who may subscribe and who a user is; what they return is signed, and anything else refused
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->use(fn (Request $r, callable $next) => $next($r)->withHeader('X-Through', 'middleware'));
$asks = function (Request $request, string $channel): mixed {
    Fermata\delay(0.001);
    return match ($request->query('as')) {
        'yes' => true,
        'no' => false,
        'nobody' => null,
        'empty' => [],
        'user' => ['user_id' => 7, 'user_info' => ['name' => $channel]],
        'nameless' => ['user_info' => []],
        'key' => ['shared_secret' => 'c2VjcmV0'],
        'text' => 'yes',
        'response' => new Response(302, '', ['Location' => '/login']),
        'exception' => throw new RuntimeException('the database has gone'),
        'exit' => exit(1),
    };
};
$pusher = new Fermata\Pusher('1', 'key', '7ad3773142a6692b25b8', authorize: $asks, authorizePath: '/auth',
    signIn: fn (Request $request) => $request->query('as') === 'no' ? null : ($request->query('as') === 'empty' ? [] : ['id' => 5, 'watchlist' => ['6']]), signInPath: '/user');
$server->pusher($pusher, '/ws', middleware: [fn (Request $r, callable $next) => $next($r)->withHeader('X-Own', 'too')]);
$server->post('/mine', $pusher->answerAuthorization(...));
$server->post('/none', (new Fermata\Pusher('2', 'none', 'secret'))->answerAuthorization(...));
$server->get('/', fn () => Response::text('well'));
PHP);
$form = ['Content-Type' => 'application/x-www-form-urlencoded'];
// The test vector of Pusher's documentation.
$asked = 'socket_id=1234.1234&channel_name=private-foobar';
$answer = $server->request('POST', '/auth?as=yes', $form, $asked);
echo $answer, ' ', $answer->header('content-type'), ' ', $answer->header('x-through'), ' ', $answer->header('x-own'), "\n";
echo $server->request('POST', '/mine?as=yes', $form, $asked), "\n";
echo $server->request('POST', '/auth?as=key', $form, $asked), "\n";
foreach (['no', 'nobody', 'empty', 'response', 'text', 'exception', 'exit'] as $as) {
    echo "$as: ", $server->request('POST', "/auth?as=$as", $form, $asked)->status, "\n";
}
$presence = 'socket_id=1234.1234&channel_name=presence-foobar';
echo $server->request('POST', '/auth?as=user', $form, $presence), "\n";
foreach (['empty', 'yes', 'nameless'] as $as) {
    echo "$as: ", $server->request('POST', "/auth?as=$as", $form, $presence)->status, "\n";
}
foreach (['', 'socket_id=1.2', 'channel_name=a', 'socket_id=1:2&channel_name=a', 'socket_id=1.2&channel_name=a%20b', 'socket_id[]=1.2&channel_name=a'] as $bad) {
    echo trim((string) $server->request('POST', '/auth?as=exception', $form, $bad)), "\n";
}
echo $server->request('POST', '/user', $form, 'socket_id=1234.1234'), "\n";
foreach (['no', 'empty'] as $as) {
    echo trim((string) $server->request('POST', "/user?as=$as", $form, 'socket_id=1234.1234')), "\n";
}
echo $server->request('POST', '/none', $form, $asked)->status, "\n";
echo $server->get('/'), "\n";
?>
--EXPECT--
200 {"auth":"key:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"} application/json middleware too
200 {"auth":"key:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"}
200 {"auth":"key:58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4","shared_secret":"c2VjcmV0"}
no: 403
nobody: 403
empty: 403
response: 302
text: 500
exception: 500
exit: 500
200 {"auth":"key:974e008fd87e8c0e1cf8630f8918679b9b3a20c07360f892ffe78e5f6bd5b075","channel_data":"{\"user_id\":\"7\",\"user_info\":{\"name\":\"presence-foobar\"}}"}
empty: 403
yes: 500
nameless: 500
400 socket_id or channel_name is missing
400 socket_id or channel_name is missing
400 socket_id or channel_name is missing
400 socket_id is none of a connection
400 the channel name "a b" is invalid: use letters, digits and _-=@,.;
400 socket_id or channel_name is missing
200 {"auth":"key:efb82326aa6ee7c6a8d151c600a62a79e89dcaeb3a761ebfa6be19b4f5cf2735","user_data":"{\"id\":\"5\",\"watchlist\":[\"6\"]}"}
403 Forbidden
403 Forbidden
500
200 well
