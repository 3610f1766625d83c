--TEST--
OPcache keeps files that were written after the server's start, sees that they are changed, and keeps none that is being written
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (PHP_VERSION_ID < 80500 && !is_file(ini_get('extension_dir') . '/opcache.so')) die('skip needs opcache');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$opcache = PHP_VERSION_ID < 80500 ? ['-dzend_extension=opcache'] : [];
$server = new TestServer(<<<'PHP'
$server->get('/write/{name}/{text}/{age}', function (Request $r) {
    $file = __DIR__ . "/{$r->route('name')}.inc";
    file_put_contents($file, "<?php return '{$r->route('text')}';");
    touch($file, time() - (int) $r->route('age'));
    clearstatcache();
    return Response::text('');
});
$server->get('/run/{name}', function (Request $r) {
    $r->fillGlobals();
    $file = __DIR__ . "/{$r->route('name')}.inc";
    return Response::text((include $file) . ' ' . json_encode(opcache_is_script_cached($file)));
});
$server->get('/settings', fn () => Response::json([ini_get('opcache.file_update_protection'), ini_get('opcache.revalidate_freq')]));
PHP, 'workers: 1, limits: new Limits(handlers: 1)', [...$opcache, '-dopcache.enable_cli=1']);
$say = fn (string ...$targets) => print implode(', ', array_map(fn ($target) => $server->get($target)->body, $targets)) . "\n";
$say('/write/new/one/0', '/run/new');
// Later, a file of three seconds ago is newer than two seconds before the start, and older than two seconds.
sleep(2);
$say('/write/view/first/3', '/run/view', '/run/view');
$say('/write/view/second/4', '/run/view', '/run/view');
$say('/write/fresh/third/0', '/run/fresh', '/run/fresh');
$say('/settings');
?>
--EXPECT--
, one false
, first true, first true
, second true, second true
, third false, third false
["2","2"]
