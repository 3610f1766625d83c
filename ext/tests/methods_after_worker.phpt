--TEST--
Every function and method, called by a shutdown function and a destructor when the worker has ended, returns or throws an exception of ours
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

$code = <<<'PHP'
Fermata\Runtime::hook(Fermata\Hook::Streams);
final class Sweep
{
    /** @var list<object> of the extension's classes */
    public static array $found = [];
    public static array $functions = [];
    public static bool $isWorker = false;

    public static function keep(mixed ...$values): void
    {
        array_push(self::$found, ...array_filter($values, is_object(...)));
    }

    /** Returns a value of the type; objects are those that were found. */
    private static function value(?ReflectionType $type): mixed
    {
        foreach ($type instanceof ReflectionUnionType ? $type->getTypes() : [$type] as $one) {
            $name = $one?->getName() ?? 'mixed';
            foreach (self::$found as $object) {
                if ($object instanceof $name) {
                    return $object;
                }
            }
            $value = match ($name) {
                'int' => 1, 'float' => 0.001, 'string', 'mixed' => 'x', 'bool', 'false' => false, 'true' => true, 'array', 'iterable' => [],
                'callable', 'Closure' => fn () => 'x', default => null,
            };
            if ($value !== null) {
                return $value;
            }
            if (enum_exists($name)) {
                return $name::cases()[0];
            }
        }
        return null;
    }

    private static function call(string $name, ReflectionFunctionAbstract $function, Closure $call): int
    {
        $all = array_filter($function->getParameters(), fn ($parameter) => !$parameter->isVariadic());
        $required = array_filter($all, fn ($parameter) => !$parameter->isOptional());
        foreach ([$required, $all] as $parameters) {
            $seconds = array_filter($all, fn ($parameter) => (string) $parameter->getType() === '?float');
            if ($parameters === $required && $seconds) {
                continue; // null waits for ever
            }
            $arguments = array_map(fn ($parameter) => self::value($parameter->getType()), $parameters);
            try {
                $call($arguments);
            } catch (Fermata\Exception\FermataException | TypeError | ValueError | ReflectionException | JsonException) {
            } catch (Throwable $other) {
                echo "$name: ", $other::class, ' ', $other->getMessage(), "\n";
            }
        }
        return 1;
    }

    public static function all(string $when): void
    {
        [$calls, $objects] = [0, []];
        $extension = new ReflectionExtension('fermata');
        foreach ($extension->getFunctions() as $function) {
            $calls += self::call($function->name, $function, $function->invokeArgs(...));
        }
        foreach ($extension->getClasses() as $class) {
            // It starts its own server.
            if ($class->name === 'Fermata\Testing\Engine' || $class->implementsInterface(Throwable::class) || $class->isInterface()) {
                continue;
            }
            foreach ($class->getMethods() as $method) {
                $name = "$class->name::$method->name()";
                if ($method->isStatic()) {
                    $calls += self::call($name, $method, fn ($arguments) => $method->invokeArgs(null, $arguments));
                }
                foreach (self::$found as $object) {
                    if (!$method->isStatic() && $class->isInstance($object)) {
                        $objects[$class->name] = true;
                        $calls += self::call($name, $method, fn ($arguments) => $method->invokeArgs($object, $arguments));
                    }
                }
            }
            if (!isset($objects[$class->name]) && array_filter($class->getMethods(), fn ($method) => !$method->isStatic() && !$method->isConstructor())) {
                echo "no object of $class->name\n";
            }
        }
        foreach ([fn () => Fermata\Worker::index(), fn () => Fermata\Worker::send(0, 'x'),
            fn () => Fermata\Worker::broadcast('x'), fn () => Channel::get('x')->publish('x'), fn () => delay(0), fn () => async(fn () => 1),
            fn () => Context::get('x'), fn () => Context::set('x', 1), fn () => await(self::$found[0])] as $i => $needs) {
            try {
                $needs();
                echo "$when: $i needs no worker\n";
            } catch (Fermata\Exception\FermataException | TypeError) {
            }
        }
        @rmdir('x');
        echo "$when: ", $calls > 200 ? 'all' : $calls, "\n";
    }

    public function __destruct()
    {
        if (self::$isWorker) {
            self::all('destructor');
        }
    }
}
$sweep = new Sweep;
register_shutdown_function(fn () => Sweep::$isWorker && Sweep::all('shutdown function'));
Sweep::keep($server, new Fermata\Pool(fn () => new stdClass, 2), new Mutex, new Semaphore(1), new Queue(1), new Fermata\Poll, new Cancellation,
    new Fermata\Table(8, [Fermata\Table\Column::int('a')]), Response::text('x'), Hold::sse('x'),
    new Fermata\Publisher('unix:/nothing.sock'), new Event('x'), new Options, new Limits, new Fermata\Pusher('1', 'key', 'secret'), new Fermata\Mercure(str_repeat('k', 32)));
$server->group('/group', function ($routes) { Sweep::keep($routes); });
Sweep::keep($server->jobs(1)->add('x', fn () => 1));
$server->onMessage(fn () => null);
$server->use(function (Request $r, $next) { Sweep::keep($next); return $next($r); });
$server->post('/request', function (Request $r) {
    $file = Fermata\File::open(__FILE__);
    Sweep::$isWorker = true;
    Sweep::keep($r, Fermata\File::stat(__FILE__), ...array_values($r->files()));
    Sweep::keep(Channel::get('x'), Channel::get('x')->read(), async(fn () => 1), $file, Fermata\File::lines(__FILE__), $m = new Mutex);
    return Response::text('x');
});
$server->get('/events', fn () => Response::events(function ($sink) { Sweep::keep($sink); $sink->send('x'); delay(getenv('USE_ZEND_ALLOC') === '0' ? 10 : 0.3); }));
$server->get('/waits', function (Request $r) { Sweep::keep($r); (Sweep::$found[1])->use(fn () => delay(getenv('USE_ZEND_ALLOC') === '0' ? 10 : 0.3)); });
$server->websocket('/socket', open: function (WebSocket $socket) { Sweep::keep($socket); }, message: function (WebSocket $socket, Message $m) { Sweep::keep($socket, $m); $socket->send('x'); },
    upgrade: function (Upgrade $u) { Sweep::keep($u); return $u->accept(); });
$server->get('/client', function (Request $r) {
    Sweep::keep(Fermata\WebSocket\Client::connect('ws://127.0.0.1:' . $r->serverParams()['SERVER_PORT'] . '/socket'));
    return Response::text('x');
});
PHP;
$server = new TestServer($code, 'workers: 1', ['-dfermata.drain_timeout_ms=' . (SLOW ? 90000 : 5000)]);
$form = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\ntext\r\n--x--\r\n";
echo $server->request('POST', '/request', ['Content-Type' => 'multipart/form-data; boundary=x'], $form), "\n";
echo $server->get('/client'), "\n";
$events = $server->connect();
$events->start('GET', '/events');
$events->head();
$socket = $server->socket('/socket');
echo $socket->ask('x'), "\n";
$waits = $server->connect();
$waits->start('GET', '/waits');
usleep(100000);
var_dump($server->stop());
echo $server->output();
echo $server->logged('~signal [0-9]|exit code [^0]~');
?>
--EXPECT--
200 x
200 x
text: x
int(0)
no object of Fermata\Next
no object of Fermata\WebSocketHandler
shutdown function: all
no object of Fermata\Next
no object of Fermata\WebSocketHandler
destructor: all
