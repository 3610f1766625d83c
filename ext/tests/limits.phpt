--TEST--
Limits, History, Log: named arguments, readonly, no unknown option
--EXTENSIONS--
fermata
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{History, Limits, Log, LogFormat, LogLevel};

echo json_encode(new Limits(bodyBytes: 10, drainTimeoutMs: 5)), "\n";
echo json_encode(new Limits(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)), "\n";
echo json_encode(new History(count: 1, path: '/tmp/h')), json_encode(new History(ageMs: 2, bytes: 3)), "\n";
echo json_encode(new Log(level: LogLevel::Debug)), json_encode(new Log(LogFormat::Json)), "\n";
$limits = new Limits();
thrown(fn() => new Limits(bodybytes: 1));
thrown(fn() => new Limits(bodyBytes: '1 MB'));
thrown(fn() => new Log('json'));
thrown(fn() => $limits->__construct(1));
thrown(function () use ($limits) { $limits->bodyBytes = 2; });
?>
--EXPECT--
{"connections":null,"connectionsPerAddress":null,"headerBytes":null,"bodyBytes":10,"queueBytes":null,"eventBytes":null,"headerTimeoutMs":null,"bodyTimeoutMs":null,"idleTimeoutMs":null,"writeTimeoutMs":null,"drainTimeoutMs":5,"handlers":null}
{"connections":1,"connectionsPerAddress":2,"headerBytes":3,"bodyBytes":4,"queueBytes":5,"eventBytes":6,"headerTimeoutMs":7,"bodyTimeoutMs":8,"idleTimeoutMs":9,"writeTimeoutMs":10,"drainTimeoutMs":11,"handlers":null}
{"count":1,"ageMs":null,"bytes":null,"path":"\/tmp\/h"}{"count":null,"ageMs":2,"bytes":3,"path":null}
{"format":null,"level":"debug"}{"format":"json","level":null}
Error: Unknown named parameter $bodybytes
TypeError: Fermata\Limits::__construct(): Argument #4 ($bodyBytes) must be of type ?int, string given
TypeError: Fermata\Log::__construct(): Argument #1 ($format) must be of type ?Fermata\LogFormat, string given
Fermata\Exception\MisuseError: the object is already constructed; create a new one
Error: Cannot modify readonly property Fermata\Limits::$bodyBytes
