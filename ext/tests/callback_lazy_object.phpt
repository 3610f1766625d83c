--TEST--
A wait in the initializer of a lazy object holds the worker: no handler finds the object without its properties
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (!method_exists(ReflectionClass::class, 'newLazyGhost')) {
    die('skip needs lazy objects of PHP 8.4');
}
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$server = new TestServer(<<<'PHP'
class Service
{
    public string $name;
    public function name(): string { return $this->name; }
}
$class = new ReflectionClass(Service::class);
$make = function (): Service {
    delay(0.02);
    $made = new Service;
    $made->name = 'proxied';
    return $made;
};
$services = [
    'ghost' => $class->newLazyGhost(function (Service $service): void { delay(0.02); $service->name = 'ready'; }),
    'proxy' => $class->newLazyProxy($make),
    'other' => $class->newLazyProxy(fn (Service $service) => $make()),
];
$server->get('/{name}', fn (string $name) => Response::text($services[$name]->name()));
PHP);
foreach (['ghost', 'proxy', 'other'] as $name) {
    $connections = [];
    for ($i = 0; $i < 3; $i++) {
        $connections[$i] = $server->connect();
        $connections[$i]->start('GET', "/$name");
    }
    foreach ($connections as $connection) {
        echo $connection->answer(), "\n";
    }
}
var_dump($server->stop());
?>
--EXPECT--
200 ready
200 ready
200 ready
200 proxied
200 proxied
200 proxied
200 proxied
200 proxied
200 proxied
int(0)
