--TEST--
AccessLog holds what it is given, and the server checks it
--EXTENSIONS--
fermata
--FILE--
<?php
use Fermata\{AccessLog, AccessLogFormat, Server};
use Fermata\Exception\{ConfigurationException, MisuseError};

$log = new AccessLog('stderr', AccessLogFormat::Json, query: true);
var_dump($log->path, $log->format, $log->query);
$plain = new AccessLog('/var/log/app.log');
var_dump($plain->format, $plain->query);

foreach ([
    fn() => new AccessLog(),
    fn() => $log->path = 'x',
    fn() => $log->__construct('x'),
    fn() => new Server(accessLog: $log, metrics: 'https://127.0.0.1:1'),
    fn() => new Server(metrics: '127.0.0.1:9464'),
] as $attempt) {
    try {
        $attempt();
        echo "accepted\n";
    } catch (Error | ConfigurationException $error) {
        echo $error::class, ': ', $error->getMessage(), "\n";
    }
}
new Server(accessLog: $plain, metrics: 'http://127.0.0.1:9464');
?>
--EXPECT--
string(6) "stderr"
enum(Fermata\AccessLogFormat::Json)
bool(true)
NULL
NULL
ArgumentCountError: Fermata\AccessLog::__construct() expects at least 1 argument, 0 given
Error: Cannot modify readonly property Fermata\AccessLog::$path
Fermata\Exception\MisuseError: the object is already constructed; create a new one
Fermata\Exception\ConfigurationException: setting metrics_listen (Server metrics) is "https://127.0.0.1:1": that is not an http:// address, the only kind that is served here; give http://HOST:PORT, such as http://127.0.0.1:9464, or nothing
Fermata\Exception\ConfigurationException: setting metrics_listen (Server metrics) is "127.0.0.1:9464": that is not an address: it must start with http://, https://, unix: or systemd; give http://HOST:PORT, such as http://127.0.0.1:9464, or nothing
