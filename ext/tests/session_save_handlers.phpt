--TEST--
Whatever fails while a session is opened, written or closed, its content stays, its lock is free, and the next handler finds no other's save handler
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
session_save_path(__DIR__);
final class Fails { public function __serialize(): array { throw new Exception('cannot be serialized'); } }
/** Throws in one of its methods, after or before the call of PHP's own handler. */
class Failing extends SessionHandler {
    public function __construct(private string $in, private bool $after) {}
    private function call(string $name, mixed ...$arguments): mixed {
        if ($this->in === $name && !$this->after) { throw new Exception("$name fails"); }
        $result = parent::$name(...$arguments);
        if ($this->in === $name) { throw new Exception("$name fails"); }
        return $result;
    }
    public function open(string $path, string $name): bool { return $this->call('open', $path, $name); }
    public function close(): bool { return $this->call('close'); }
    public function read(string $id): string|false { return $this->call('read', $id); }
    public function write(string $id, string $data): bool { return $this->call('write', $id, $data); }
    public function destroy(string $id): bool { return $this->call('destroy', $id); }
}
/** Opens another session while its own is written or closed. */
final class Again extends SessionHandler {
    public function __construct(private string $in) {}
    private function again(string $in): void {
        if ($this->in === $in) { @ini_set('session.name', 'other'); @session_set_save_handler(new self($in), false); @session_start(); }
    }
    public function write(string $id, string $data): bool { $this->again('write'); return parent::write($id, $data); }
    public function close(): bool { $this->again('close'); return parent::close(); }
    private static int $destroyed = 0;
    public function __destruct() { if (self::$destroyed++ === 0) { $this->again('destructor'); } }
}
function fill(string $what): void {
    $_SESSION['x'] = match ($what) { 'closure' => fn () => 1, 'generator' => (fn () => yield 1)(), 'serialize' => new Fails() };
}
$server->get('/count', function (Request $r) {
    $r->fillGlobals();
    $before = [ini_get('session.save_handler'), session_name()];
    session_start();
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    return Response::text(implode(' ', [...$before, $_SESSION['n'], implode(',', array_keys($_SESSION))]));
});
$server->get('/fill/{what}/{handler}/{how}', function (Request $r) {
    $r->fillGlobals();
    if ($r->route('handler') === 'own') { session_set_save_handler(new SessionHandler(), true); }
    session_start();
    $_SESSION['n'] = 100;
    fill($r->route('what'));
    try {
        match ($r->route('how')) { 'end' => null, 'close' => session_write_close(), 'regenerate' => session_regenerate_id() };
    } catch (Exception $e) {
        return Response::text($e->getMessage() . ' ' . session_status());
    }
    return Response::text('returned');
});
$server->get('/fail/{in}/{after}/{how}', function (Request $r) {
    $r->fillGlobals();
    try {
        session_set_save_handler(new Failing($r->route('in'), $r->route('after') === 'after'), false);
        session_start();
        match ($r->route('how')) { 'end' => null, 'close' => session_write_close(), 'destroy' => session_destroy() };
    } catch (Exception $e) {
        return Response::text($e->getMessage() . ' ' . session_status());
    }
    return Response::text('returned');
});
$server->get('/again/{in}', function (Request $r) {
    $r->fillGlobals();
    session_set_save_handler(new Again($r->route('in')), false);
    session_start();
    return Response::text(session_name());
});
PHP, 'workers: 1, limits: new Limits(handlers: 1)');

$id = str_repeat('b', 32);
$cookie = ['Cookie' => "PHPSESSID=$id"];
$path = $server->folder() . "/sess_$id";
$count = function () use ($server, $cookie, $path): string {
    $file = @fopen($path, 'r');
    $lock = $file === false ? 'gone' : (flock($file, LOCK_SH | LOCK_NB) ? 'free' : 'LOCKED');
    $file && fclose($file);
    return "$lock, " . $server->get('/count', $cookie);
};
echo $server->get('/count', $cookie), "\n";
foreach (['closure', 'generator', 'serialize'] as $what) {
    foreach (['php', 'own'] as $handler) {
        foreach (['end', 'close', 'regenerate'] as $how) {
            echo "$what $handler $how: ", $server->get("/fill/$what/$handler/$how", $cookie), ' | ', $count(), "\n";
        }
    }
}
foreach (['open', 'read', 'write', 'close'] as $in) {
    foreach (['before', 'after'] as $after) {
        echo "$in $after: ", $server->get("/fail/$in/$after/close", $cookie), ' | ', $count(), ' | ', $server->get("/fail/$in/$after/end", $cookie), ' | ', $count(), "\n";
    }
}
foreach (['before', 'after'] as $after) {
    echo "destroy $after: ", $server->get("/fail/destroy/$after/destroy", $cookie), ' | ', $count(), "\n";
}
foreach (['write', 'close', 'destructor'] as $in) {
    echo "again $in: ", $server->get("/again/$in", $cookie), ' | ', $count(), "\n";
}
echo $server->stop(), "\n";
array_map(unlink(...), glob($server->folder() . '/sess_*'));
?>
--EXPECT--
200 files PHPSESSID 1 n
closure php end: 200 returned | free, 200 files PHPSESSID 2 n
closure php close: 200 Serialization of 'Closure' is not allowed 1 | free, 200 files PHPSESSID 3 n
closure php regenerate: 200 Serialization of 'Closure' is not allowed 1 | free, 200 files PHPSESSID 4 n
closure own end: 200 returned | free, 200 files PHPSESSID 5 n
closure own close: 200 Serialization of 'Closure' is not allowed 1 | free, 200 files PHPSESSID 6 n
closure own regenerate: 200 Serialization of 'Closure' is not allowed 1 | free, 200 files PHPSESSID 7 n
generator php end: 200 returned | free, 200 files PHPSESSID 8 n
generator php close: 200 Serialization of 'Generator' is not allowed 1 | free, 200 files PHPSESSID 9 n
generator php regenerate: 200 Serialization of 'Generator' is not allowed 1 | free, 200 files PHPSESSID 10 n
generator own end: 200 returned | free, 200 files PHPSESSID 11 n
generator own close: 200 Serialization of 'Generator' is not allowed 1 | free, 200 files PHPSESSID 12 n
generator own regenerate: 200 Serialization of 'Generator' is not allowed 1 | free, 200 files PHPSESSID 13 n
serialize php end: 200 returned | free, 200 files PHPSESSID 14 n
serialize php close: 200 cannot be serialized 1 | free, 200 files PHPSESSID 15 n
serialize php regenerate: 200 cannot be serialized 1 | free, 200 files PHPSESSID 16 n
serialize own end: 200 returned | free, 200 files PHPSESSID 17 n
serialize own close: 200 cannot be serialized 1 | free, 200 files PHPSESSID 18 n
serialize own regenerate: 200 cannot be serialized 1 | free, 200 files PHPSESSID 19 n
open before: 200 open fails 1 | free, 200 files PHPSESSID 20 n | 200 open fails 1 | free, 200 files PHPSESSID 21 n
open after: 200 open fails 1 | free, 200 files PHPSESSID 22 n | 200 open fails 1 | free, 200 files PHPSESSID 23 n
read before: 200 read fails 1 | free, 200 files PHPSESSID 24 n | 200 read fails 1 | free, 200 files PHPSESSID 25 n
read after: 200 read fails 1 | free, 200 files PHPSESSID 26 n | 200 read fails 1 | free, 200 files PHPSESSID 27 n
write before: 200 write fails 1 | free, 200 files PHPSESSID 28 n | 200 returned | free, 200 files PHPSESSID 29 n
write after: 200 write fails 1 | free, 200 files PHPSESSID 30 n | 200 returned | free, 200 files PHPSESSID 31 n
close before: 200 close fails 1 | free, 200 files PHPSESSID 32 n | 200 returned | free, 200 files PHPSESSID 33 n
close after: 200 close fails 1 | free, 200 files PHPSESSID 34 n | 200 returned | free, 200 files PHPSESSID 35 n
destroy before: 200 destroy fails 1 | free, 200 files PHPSESSID 36 n
destroy after: 200 destroy fails 1 | gone, 200 files PHPSESSID 1 n
again write: 200 PHPSESSID | free, 200 files PHPSESSID 2 n
again close: 200 PHPSESSID | free, 200 files PHPSESSID 3 n
again destructor: 200 PHPSESSID | free, 200 files PHPSESSID 4 n
0
