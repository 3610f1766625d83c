--TEST--
Options and Compression: defaults, named values, misuse
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\WebSocket\{Compression, Options, QueuePolicy};

require __DIR__ . '/server.inc';

function told(object $values): void { echo json_encode($values), "\n"; }
told(new Options());
told(new Options(origins: ['*'], protocols: ['a', 'b'], messageBytes: 1, frameBytes: 2, queueBytes: 3, queuePolicy: QueuePolicy::Refuse,
    pingIntervalMs: 0, pongTimeoutMs: 4, idleTimeoutMs: 5, compression: new Compression(true, true, 9, 9, 0)));
thrown(fn () => new Options(messageBytes: 0));
thrown(fn () => new Options(pingIntervalMs: -1));
thrown(fn () => new Options(origins: [1]));
thrown(fn () => new Options(protocols: [null]));
thrown(fn () => new Options(compress: true));
thrown(fn () => new Compression(windowBits: 8));
thrown(fn () => new Compression(level: 0));
thrown(fn () => new Compression(minBytes: -1));
thrown(function () { $options = new Options(); $options->__construct(messageBytes: 5); });
thrown(function () { $options = new Options(); $options->messageBytes = 5; });
thrown(fn () => (new ReflectionClass(Options::class))->newInstanceWithoutConstructor()->origins);
?>
--EXPECT--
{"origins":null,"protocols":[],"messageBytes":null,"frameBytes":null,"queueBytes":null,"queuePolicy":"close","pingIntervalMs":null,"pongTimeoutMs":null,"idleTimeoutMs":null,"compression":null}
{"origins":["*"],"protocols":["a","b"],"messageBytes":1,"frameBytes":2,"queueBytes":3,"queuePolicy":"refuse","pingIntervalMs":0,"pongTimeoutMs":4,"idleTimeoutMs":5,"compression":{"serverContextTakeover":true,"clientContextTakeover":true,"windowBits":9,"level":9,"minBytes":0}}
Fermata\Exception\MisuseError: messageBytes must be at least 1, not 0
Fermata\Exception\MisuseError: pingIntervalMs must be at least 0, not -1
Fermata\Exception\MisuseError: origins must be a list of strings, int is among them
Fermata\Exception\MisuseError: protocols must be a list of strings, null is among them
Error: Unknown named parameter $compress
Fermata\Exception\MisuseError: windowBits must be 9 to 15, not 8
Fermata\Exception\MisuseError: level must be 1 to 9, not 0
Fermata\Exception\MisuseError: minBytes must be 0 to 2147483647, not -1
Fermata\Exception\MisuseError: the object is already constructed; create a new one
Error: Cannot modify readonly property Fermata\WebSocket\Options::$messageBytes
Error: Typed property Fermata\WebSocket\Options::$origins must not be accessed before initialization
