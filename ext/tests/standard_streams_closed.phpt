--TEST--
A server that is started without standard input, output or error: what it opens does not take their places, and gets nothing that is printed or logged
--EXTENSIONS--
fermata
pcntl
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die("skip valgrind's own log takes the place of what is closed");
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

$folder = sys_get_temp_dir() . '/fermata-closed-' . getmypid();
mkdir($folder);
file_put_contents("$folder/server.php", <<<'PHP'
<?php
$closes = getenv('CLOSES') ? array_map('fclose', [STDIN, STDOUT, STDERR]) : [];
$server = new Fermata\Server(listen: 'unix:' . __DIR__ . '/socket', workers: 1);
$jobs = $server->jobs(processes: 1);
$jobs->add('which', fn () => array_map(fn ($number) => @readlink("/proc/self/fd/$number"), [0, 1, 2]));
$server->get('/', function () use ($jobs) {
    echo "printed\n";
    error_log('logged');
    $which = fn ($number) => @readlink("/proc/self/fd/$number");
    return Fermata\Response::json([array_map($which, [0, 1, 2]), $jobs->run('which')]);
});
$server->run();
PHP);
$command = preg_split('/\s+/', getenv('FERMATA_PHPT_SERVER') ?: getenv('TEST_PHP_EXECUTABLE') . ' -n', -1, PREG_SPLIT_NO_EMPTY);
foreach (['0' => '<&-', '1' => '>&-', '2' => '2>&-', 'all' => '<&- >&- 2>&-', 'closed by the program' => ''] as $name => $closed) {
    $process = proc_open(
        ['sh', '-c', "exec \"\$@\" $closed", 'sh', ...$command, "$folder/server.php"],
        [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['file', '/dev/null', 'w']],
        $pipes,
        null,
        ['CLOSES' => $closed === '' ? '1' : ''] + getenv(),
    );
    $get = function (string $target) use ($folder): string {
        // The socket file exists a moment before the server listens.
        for ($deadline = microtime(true) + WAIT_S; microtime(true) < $deadline; usleep(2000)) {
            if ($stream = @stream_socket_client("unix://$folder/socket")) {
                break;
            }
        }
        stream_set_timeout($stream, WAIT_S);
        fwrite($stream, "GET $target HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        return explode("\r\n\r\n", stream_get_contents($stream), 2)[1] ?? '';
    };
    echo "$name: ", str_replace('\/', '/', $get('/')), "\n";
    proc_terminate($process);
    while (proc_get_status($process)['running']) {
        usleep(2000);
    }
    proc_close($process);
}
array_map(unlink(...), glob("$folder/*"));
rmdir($folder);
?>
--EXPECT--
0: [["/dev/null","/dev/null","/dev/null"],["/dev/null","/dev/null","/dev/null"]]
1: [["/dev/null","/dev/null","/dev/null"],["/dev/null","/dev/null","/dev/null"]]
2: [["/dev/null","/dev/null","/dev/null"],["/dev/null","/dev/null","/dev/null"]]
all: [["/dev/null","/dev/null","/dev/null"],["/dev/null","/dev/null","/dev/null"]]
closed by the program: [["/dev/null","/dev/null","/dev/null"],["/dev/null","/dev/null","/dev/null"]]
