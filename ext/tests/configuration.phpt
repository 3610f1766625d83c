--TEST--
Server: a setting out of range throws ConfigurationException, which names it
--EXTENSIONS--
fermata
--ENV--
FERMATA_BODY_BYTES_MAX=
--FILE--
<?php
require __DIR__ . '/server.inc';
use Fermata\{History, Limits, Log, LogLevel, Server};

thrown(fn() => new Server(listen: 'http://127.0.0.1:0', workers: 2, limits: new Limits(bodyBytes: 100), log: new Log(level: LogLevel::Error)));
foreach ([
    ['listen' => 'tcp://127.0.0.1:1'],
    ['workers' => -1],
    ['limits' => new Limits(bodyBytes: -1)],
    ['limits' => new Limits(headerTimeoutMs: PHP_INT_MAX)],
    ['history' => new History(count: -5)],
] as $arguments) {
    try {
        new Server(...$arguments);
        echo "nothing thrown\n";
    } catch (Fermata\Exception\ConfigurationException $error) {
        echo preg_replace('/^.*\b(listen|workers|body_?[bB]ytes|header_?[tT]imeout_?[mM]s|history_?\w*|count)\b.*$/s', '$1', $error->getMessage()), "\n";
    }
}
thrown(fn() => new Server(port: 80));
?>
--EXPECTREGEX--
nothing thrown
listen
workers
body_?[bB]ytes\w*
header_?[tT]imeout_?[mM]s
(history_?\w*|count)
Error: Unknown named parameter \$port
