--TEST--
Hooks: calls in a file that was compiled before the hooks were turned on are queued for, whatever the JIT
--EXTENSIONS--
fermata
curl
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip memcheck and machine code made at run time do not mix');
if (PHP_VERSION_ID < 80500 && !is_file(ini_get('extension_dir') . '/opcache.so')) die('skip needs opcache');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$program = <<<'PHP'
$shared = curl_init();
function ask(CurlHandle $handle, string $address): array {
    curl_setopt($handle, CURLOPT_URL, "http://$address/slow");
    curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);
    return [curl_exec($handle), curl_error($handle)];
}
// Called often before the hooks are installed, for a JIT that compiles hot functions.
function version(): string { return curl_version()['version']; }
for ($i = 0; $i < 300; $i++) { version(); }
Fermata\Runtime::hook(...Fermata\Hook::cases());
$begun = 0;
$goes = false;
$server->get('/slow', function () use (&$begun, &$goes) {
    for ($begun++; !$goes;) { delay(0.002); }
    return Response::text('slow');
});
$server->get('/ask/{address}', function (string $address) use ($shared, &$begun) {
    $begun++;
    return Response::json(ask($shared, $address));
});
$server->get('/begun', function () use (&$begun) { return Response::text("$begun"); });
$server->get('/go', function () use (&$goes) { $goes = true; return Response::text('goes'); });
$server->get('/jit', fn () => Response::json(opcache_get_status(false)['jit']['on']));
PHP;

$folder = ini_get('extension_dir');
$ini = [...(is_file("$folder/curl.so") ? ['-dextension=curl'] : []), ...(PHP_VERSION_ID < 80500 ? ['-dzend_extension=opcache'] : []),
    '-dopcache.enable_cli=1', '-dopcache.jit_buffer_size=32M', '-dopcache.jit_hot_func=2', '-dopcache.file_update_protection=0'];
foreach (['function', 'tracing', 'disable'] as $mode) {
    $server = new TestServer($program, ini: [...$ini, "-dopcache.jit=$mode"]);
    $address = $server->wait('~listening on http://(127\.0\.0\.1:\d+)~')[1];
    [$first, $second] = [$server->connect(), $server->connect()];
    $first->start('GET', "/ask/$address");
    $second->start('GET', "/ask/$address");
    // Both handlers and the request of the first one have started.
    for ($deadline = microtime(true) + WAIT_S; (int) substr((string) $server->get('/begun'), 4) < 3 && microtime(true) < $deadline; usleep(2000)) {
    }
    $server->get('/go');
    echo "$mode: ", $server->get('/jit'), ' ', $first->answer(), ' ', $second->answer(), "\n";
    var_dump($server->stop());
}
?>
--EXPECT--
function: 200 true 200 ["slow",""] 200 ["slow",""]
int(0)
tracing: 200 true 200 ["slow",""] 200 ["slow",""]
int(0)
disable: 200 false 200 ["slow",""] 200 ["slow",""]
int(0)
