--TEST--
Hold: own events first, then live ones from other requests; headers; several channels
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
$server->get('/events', fn (Request $r) => Hold::sse('a', 'b')->since($r->lastEventId())->keepAlive(10)
    ->with(new Event('welcome', 'hello'), Event::json(['n' => 1]))->slow(SlowPolicy::Close)->withAddedHeader('X-Test', 'no')->withHeader('x-test', 'yes')
    ->withAddedHeader('Set-Cookie', 'a=1')->withAddedHeader('Set-Cookie', 'b=2; Path=/'));
$server->post('/{channel}', fn (Request $r) => Response::text(Channel::get($r->route('channel'))->publish(new Event($r->body(), 'chat'))));
PHP);
$held = $server->connect();
$held->start('GET', '/events');
[$status, $headers] = $held->head();
echo $status, ' ', $headers['content-type'][0], ' ', implode(',', $headers['x-test']), ' ', json_encode($headers['set-cookie'], JSON_UNESCAPED_SLASHES), "\n";
echo $held->event(), "\n", $held->event(), "\n";
$ids = [];
foreach (['a' => "two\nlines", 'c' => 'not for us', 'b' => 'second'] as $channel => $text) {
    $answer = $server->request('POST', "/$channel", [], $text);
    $ids[] = $answer->body;
    echo $answer->status, "\n";
}
echo $held->event(), "\n", $held->event(), "\n";
var_dump(count(array_unique($ids)));

$again = $server->connect();
$again->start('GET', '/events', ['Last-Event-ID' => $ids[0]]);
$again->head();
echo $again->event(), "\n", $again->event(), "\n", $again->event(), "\n";
?>
--EXPECT--
200 text/event-stream yes ["a=1","b=2; Path=/"]
hello: welcome
message: {"n":1}
200
200
200
chat: two|lines
chat: second
int(3)
hello: welcome
message: {"n":1}
chat: second
