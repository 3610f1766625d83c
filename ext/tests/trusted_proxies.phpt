--TEST--
trusted_proxies: only configured proxies say who the client is; address, port, scheme and host follow, also of a kept request
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\Server;

$code = <<<'PHP'
$kept = null;
$server->get('/', function (Request $request) use (&$kept) {
    $kept = $request;
    return Response::text("{$request->remoteAddress()} " . ($request->remotePort() ?: '-') . " {$request->scheme()} {$request->host()}");
});
$server->get('/kept', function () use (&$kept) { return Response::text("{$kept->remoteAddress()} {$kept->scheme()} {$kept->host()}"); });
PHP;
$lines = ['X-Forwarded-For' => '1.1.1.1, 192.0.2.7, 127.0.0.2', 'X-Forwarded-Proto' => 'https', 'X-Forwarded-Host' => 'shop.example:8443'];
$named = 'proxyHeaders: ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"]';
$untrusted = new TestServer($code, 'workers: 1, trustedProxies: ["10.0.0.0/8", "unix"]');
echo preg_replace('/ \d+ /', ' PORT ', $untrusted->get('/', $lines)), "\n";
$trusted = new TestServer($code, 'workers: 1, trustedProxies: ["127.0.0.0/8"], ' . $named);
echo $trusted->get('/', $lines), "\n";
echo $trusted->get('/kept'), "\n";
$standard = ['Forwarded' => 'for="[2001:db8::1]:4711";proto=https;host=a.example'];
echo preg_replace('/ \d+ /', ' PORT ', $trusted->get('/', $standard + $lines)), "\n";
echo (new TestServer($code, 'workers: 1, trustedProxies: ["127.0.0.1"], proxyHeaders: ["forwarded"]'))->get('/', $standard), "\n";
echo preg_replace('/ \d+ /', ' PORT ', $trusted->get('/', ['X-Forwarded-For' => 'nonsense', 'X-Forwarded-Proto' => 'gopher', 'X-Forwarded-Host' => 'a/b'])), "\n";
$connection = $trusted->connect();
$connection->send("GET http://b.example/ HTTP/1.1\r\nHost: test\r\n\r\nGET / HTTP/1.0\r\n\r\n");
echo preg_replace('/ \d+ /', ' PORT ', $connection->answer()), "\n", preg_replace('/ \d+ /', ' PORT ', $connection->answer()), "|\n";
$environment = new TestServer($code, environment: ['FERMATA_TRUSTED_PROXIES' => '127.0.0.1']);
echo $environment->get('/', ['X-Forwarded-For' => '192.0.2.8']), "\n";
echo $environment->get('/', $lines), "\n";
thrown(fn() => new Server(trustedProxies: ['localhost']));
thrown(fn() => new Server(trustedProxies: ['10.1.0.0/8']));
thrown(fn() => new Server(trustedProxies: [1]));
thrown(fn() => new Server(proxyHeaders: ['X-Real-IP']));
thrown(fn() => new Server(proxyHeaders: []));
?>
--EXPECT--
200 127.0.0.1 PORT http test
200 192.0.2.7 - https shop.example:8443
200 192.0.2.7 https shop.example:8443
200 127.0.0.1 PORT http test
200 2001:db8::1 4711 https a.example
200 127.0.0.1 PORT http test
200 127.0.0.1 PORT http b.example
200 127.0.0.1 PORT http |
200 192.0.2.8 - http test
200 127.0.0.2 - https test
Fermata\Exception\ConfigurationException: setting trusted_proxies (Server trustedProxies) is "localhost": that is not a list of networks: "localhost" is none; give addresses such as 127.0.0.1, networks such as 10.0.0.0/8, or unix, with commas between them, or nothing
Fermata\Exception\ConfigurationException: setting trusted_proxies (Server trustedProxies) is "10.1.0.0/8": that is not a list of networks: "10.1.0.0/8" has bits behind its prefix; give addresses such as 127.0.0.1, networks such as 10.0.0.0/8, or unix, with commas between them, or nothing
TypeError: Fermata\Server::__construct(): Argument #8 ($trustedProxies) must be a string or a list of at least one string
Fermata\Exception\ConfigurationException: setting proxy_headers (Server proxyHeaders) is "X-Real-IP": that is a list of headers with "X-Real-IP"; give one or more of forwarded, x-forwarded-for, x-forwarded-proto and x-forwarded-host, with commas between them
TypeError: Fermata\Server::__construct(): Argument #12 ($proxyHeaders) must be a string or a list of at least one string
