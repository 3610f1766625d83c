--TEST--
Server: callables whose parameters cannot be given what they are called with are refused where they are registered
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{Request, Server, WebSocket};
use Fermata\WebSocket\{Message, Upgrade};

$server = new Server();
$add = fn (callable $what) => thrown(fn () => $what($server));
echo "middleware\n";
$add(fn ($s) => $s->use(fn (string $path, callable $next) => $next($path)));
$add(fn ($s) => $s->use(fn (Request $r, Request $next) => $next));
$add(fn ($s) => $s->use(fn (Request $r, callable $next, $third) => $next($r)));
$add(fn ($s) => $s->get('/a', fn () => null, middleware: [fn (int $r) => null]));
$add(fn ($s) => $s->use(fn (Request $r, callable $next) => $next($r), fn ($r, Closure $next) => $next($r), fn (object $r, $next = null, ...$rest) => $next($r)));
echo "notFound\n";
$add(fn ($s) => $s->notFound(fn (string $path) => null));
$add(fn ($s) => $s->notFound(fn (Request $r, $more) => null));
$add(fn ($s) => $s->notFound(fn (?Request $r) => null));
echo "error\n";
$add(fn ($s) => $s->error(fn (Request $r, Throwable $e) => null));
$add(fn ($s) => $s->error(fn (Throwable $e, Request $r, $more) => null));
$add(fn ($s) => $s->error(fn (DomainException|TypeError $e, Request $r) => null));
echo "websocket\n";
$add(fn ($s) => $s->websocket('/1', upgrade: fn (Request $r) => null));
$add(fn ($s) => $s->websocket('/2', open: fn (Upgrade $u) => null));
$add(fn ($s) => $s->websocket('/3', message: fn (WebSocket $w, string $text) => null));
$add(fn ($s) => $s->websocket('/4', close: fn (WebSocket $w, string $reason, array $more) => null));
$add(fn ($s) => $s->websocket('/5', upgrade: fn (Upgrade $u) => $u, open: fn ($w) => null, message: fn (WebSocket $w, Message $m) => null, close: fn (WebSocket $w, int $code) => null));
echo "every\n";
$add(fn ($s) => $s->every(1, fn (Server $s) => null));
$add(fn ($s) => $s->every(1, fn ($optional = 1, ...$more) => null));
echo "onMessage\n";
$add(fn ($s) => $s->onMessage(fn (string $m, Request $from) => null));
$add(fn ($s) => $s->onMessage(fn (array $m, int $from) => null));
echo "functions of PHP's own are not looked into\n";
$add(fn ($s) => $s->every(1, 'gc_collect_cycles'));
?>
--EXPECT--
middleware
Fermata\Exception\MisuseError: middleware is called with Fermata\Request and Closure, which its parameter $path cannot be given
Fermata\Exception\MisuseError: middleware is called with Fermata\Request and Closure, which its parameter $next cannot be given
Fermata\Exception\MisuseError: middleware is called with Fermata\Request and Closure, which its parameter $third cannot be given
Fermata\Exception\MisuseError: middleware is called with Fermata\Request and Closure, which its parameter $r cannot be given
nothing thrown
notFound
Fermata\Exception\MisuseError: the handler for paths that nothing knows is called with Fermata\Request, which its parameter $path cannot be given
Fermata\Exception\MisuseError: the handler for paths that nothing knows is called with Fermata\Request, which its parameter $more cannot be given
nothing thrown
error
Fermata\Exception\MisuseError: the handler for errors is called with Throwable and Fermata\Request, which its parameter $r cannot be given
Fermata\Exception\MisuseError: the handler for errors is called with Throwable and Fermata\Request, which its parameter $more cannot be given
nothing thrown
websocket
Fermata\Exception\MisuseError: the callable for upgrade of /1 is called with Fermata\WebSocket\Upgrade, which its parameter $r cannot be given
Fermata\Exception\MisuseError: the callable for open of /2 is called with Fermata\WebSocket, which its parameter $u cannot be given
Fermata\Exception\MisuseError: the callable for message of /3 is called with Fermata\WebSocket and Fermata\WebSocket\Message, which its parameter $text cannot be given
Fermata\Exception\MisuseError: the callable for close of /4 is called with Fermata\WebSocket, an int and a string, which its parameter $more cannot be given
nothing thrown
every
Fermata\Exception\MisuseError: what every() calls is called with nothing, which its parameter $s cannot be given
nothing thrown
onMessage
Fermata\Exception\MisuseError: the handler for messages of workers is called with any value and an int, which its parameter $from cannot be given
nothing thrown
functions of PHP's own are not looked into
nothing thrown
