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
