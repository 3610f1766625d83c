--TEST--
Private methods that the server calls throw when a handler calls them by reflection
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';

foreach (['', '$server->onMessage(fn ($message) => print("$message\n"));'] as $more) {
    $server = new TestServer($more . <<<'PHP'

$server->get('/', function () use ($server) {
    $thrown = [];
    foreach ((new ReflectionExtension('fermata'))->getClasses() as $class) {
        foreach ($class->getMethods(ReflectionMethod::IS_PRIVATE) as $method) {
            if (!$method->isConstructor() && $method->class === $class->name && $method->name !== '__clone') {
                try {
                    $method->invoke($method->isStatic() ? null : $class->newInstanceWithoutConstructor());
                    $thrown[] = "$class->name::$method->name() returned";
                } catch (Throwable $error) {
                    $thrown[] = "$class->name::$method->name(): " . $error::class;
                }
            }
        }
    }
    try {
        Fermata\Worker::send(0, 'a message');
    } catch (Fermata\Exception\MisuseError) {
    }
    delay(0.01);
    return Response::text(implode("\n", $thrown));
});
PHP);
    echo $server->get('/')->body, "\n";
    if ($more) {
        $server->waitForOutput('~a message~');
    }
    var_dump($server->stop());
}
?>
--EXPECT--
Fermata\Worker::receive(): Fermata\Exception\MisuseError
int(0)
Fermata\Worker::receive(): Fermata\Exception\MisuseError
int(0)
