--TEST--
A save handler that the script sets before it runs the server serves every handler, also after one that has set its own; between handlers no session is opened
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
final class Kept implements SessionHandlerInterface {
    private static array $data = [];
    public function __construct(private string $name) {}
    public function open(string $path, string $name): bool { return true; }
    public function close(): bool { return true; }
    public function read(string $id): string|false { return self::$data[$this->name . $id] ?? ''; }
    public function write(string $id, string $data): bool { self::$data[$this->name . $id] = $data; return true; }
    public function destroy(string $id): bool { unset(self::$data[$this->name . $id]); return true; }
    public function gc(int $max): int|false { return 0; }
}
/** Part of a cycle, so the garbage collector calls its destructor. */
final class Late {
    public self $me;
    public function __destruct() {
        try { session_start(); } catch (Throwable $e) { file_put_contents(__DIR__ . '/late', $e::class); }
    }
}
session_save_path(__DIR__);
session_set_save_handler(new Kept('script'), true);
$server->get('/count', function (Request $r) {
    $r->fillGlobals();
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    return Response::text(session_module_name() . ' ' . $_SESSION['n']);
});
$server->get('/own', function (Request $r) {
    $r->fillGlobals();
    session_set_save_handler(new Kept('own'), false);
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    return Response::text('own ' . $_SESSION['n']);
});
$server->get('/files', function (Request $r) {
    $r->fillGlobals();
    session_module_name('files');
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    return Response::text('files ' . $_SESSION['n']);
});
$server->get('/late', function (Request $r) {
    $r->fillGlobals();
    $late = new Late();
    $late->me = $late;
    unset($late);
    for ($i = 0; $i < 20000; $i++) { $o = new stdClass(); $o->o = $o; }
    return Response::text('late');
});
$server->get('/collect', fn () => Response::text((string) (gc_collect_cycles() >= 0) . session_status()));
PHP, 'workers: 1, limits: new Limits(handlers: 1)');

$cookie = ['Cookie' => 'PHPSESSID=' . str_repeat('d', 32)];
foreach (['count', 'count', 'own', 'own', 'count', 'files', 'files', 'count', 'late', 'collect', 'count'] as $path) {
    echo $server->get("/$path", $cookie), "\n";
}
echo $server->stop(), $server->logged('/\[worker 0\] .*(session|Session)/'), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));
?>
--EXPECT--
200 user 1
200 user 2
200 own 1
200 own 2
200 user 3
200 files 1
200 files 2
200 user 4
200 late
200 11
200 user 5
0
