--TEST--
mercure_publish(): to the hub's subscribers; without a hub, to the channels with the names of the topics
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$routes = <<<'PHP'
$server->get('/events', fn () => Hold::sse('news'));
$server->post('/', function (Request $r): Response {
    try {
        return Response::text(mercure_publish($r->query('topics', 'news') === '' ? '' : ['other', 'news'], $r->body(), false, $r->query('id'), $r->query('type'), 100));
    } catch (Fermata\Exception\MisuseError $error) {
        return Response::text($error->getMessage());
    }
});
PHP;
echo (new ReflectionFunction('mercure_publish')), "\n";
$hubs = [
    '/events' => '',
    '/.well-known/mercure?topic=news' => '$server->mercure(new Fermata\Mercure(anonymous: true, position: false));',
    '/.well-known/mercure?match=news' => '$server->mercure(new Fermata\Mercure(anonymous: true, position: false, version: "1.0",
        resourceIdentifier: "https://example.com/.well-known/mercure", issuer: "https://example.com"));',
];
foreach ($hubs as $path => $hub) {
    $server = new TestServer($hub . $routes);
    $held = $server->connect();
    $held->start('GET', $path);
    echo $held->head()[0], "\n";
    echo $server->request('POST', '/?type=added&id=urn:mine', [], 'first'), "\n", $held->event(), "\n";
    echo preg_match('/^200 #?[a-z0-9]+-[a-z0-9]+$/', (string) $server->request('POST', '/', [], 'second')), "\n", $held->event(), "\n";
    foreach (['/?topics=', '/?type=a%0Ab'] as $bad) {
        echo $server->request('POST', $bad, [], 'bad')->body, "\n";
    }
}
?>
--EXPECT--
Function [ <internal:fermata> function mercure_publish ] {

  - Parameters [6] {
    Parameter #0 [ <required> array|string $topics ]
    Parameter #1 [ <optional> string $data = '' ]
    Parameter #2 [ <optional> bool $private = false ]
    Parameter #3 [ <optional> ?string $id = null ]
    Parameter #4 [ <optional> ?string $type = null ]
    Parameter #5 [ <optional> ?int $retry = null ]
  }
  - Return [ string ]
}

200
200 urn:mine
added: first
1
message: second
channel name "": it is empty; use 1 to 255 bytes of printable text
event name: it contains a line break or NUL; use one line
200
200 urn:mine
added: first
1
message: second
Invalid "topic" parameter
Invalid "type" parameter
200
200 urn:mine
added: first
1
message: second
Invalid "topic" parameter
Invalid "type" parameter
