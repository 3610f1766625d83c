--TEST--
What PHP warns of while a handler's changes are put back goes to the log: no error handler of the program's waits, throws or exits there
--EXTENSIONS--
fermata
--SKIPIF--
<?php
if (getenv('USE_ZEND_ALLOC') === '0') die('skip the limit is the Zend allocator\'s');
?>
--FILE--
<?php
require __DIR__ . '/server.inc';

foreach (['throws' => 'throw new ErrorException($m);', 'waits' => 'delay(0.02); return true;', 'exits' => 'exit(1);', 'changes' => 'chdir("/"); $_GET["x"] = 1; date_default_timezone_set("Asia/Tokyo"); return true;'] as $way => $body) {
    $server = new TestServer("set_error_handler(function (\$n, \$m) { if (str_contains(\$m, 'deprecated')) { return true; } error_log('HANDLER: ' . \$m); $body });" . <<<'PHP'
$folder = getcwd();
// Each makes changes that PHP cannot restore, or that cause warnings when PHP restores them.
$changes = [
    'removed' => function () use ($folder) { mkdir("$folder/x"); chdir("$folder/x"); rmdir("$folder/x"); },
    'renamed' => function () use ($folder) { chdir('/tmp'); rename($folder, "$folder-2"); },
    'limit' => function () { ini_set('memory_limit', '256M'); $GLOBALS['large'] = str_repeat('x', 60 << 20); },
    'all' => function () {
        date_default_timezone_set('Asia/Tokyo'); umask(0777); setlocale(LC_ALL, 'C.UTF-8'); putenv('SECRET=alice'); error_reporting(E_ALL & ~E_NOTICE); set_include_path('/');
        gc_disable(); mt_srand(1); assert_options(ASSERT_CALLBACK, fn () => true); assert_options(ASSERT_WARNING, 1); ini_set('assert.callback', 'strlen'); ini_set('zend.assertions', '0');
        foreach (['libxml_use_internal_errors' => true, 'mb_internal_encoding' => 'SJIS', 'mb_http_output' => 'SJIS', 'mb_detect_order' => 'SJIS', 'mb_regex_encoding' => 'SJIS',
            'mb_substitute_character' => 33, 'mb_language' => 'ja', 'bcscale' => 7, 'locale_set_default' => 'de'] as $function => $value) {
            if (function_exists($function)) {
                $function($value);
            }
        }
    },
];
$undo = ['renamed' => function () use ($folder) { rename("$folder-2", $folder); }, 'limit' => function () { unset($GLOBALS['large']); }];
foreach ($changes as $name => $change) {
    $server->get("/$name", function () use ($change, $undo, $name) { $change(); delay(0.15); ($undo[$name] ?? fn () => null)(); return Response::text('x'); });
    $server->get("/$name/ends", function () use ($change) { $change(); return Response::text('x'); });
    $server->get("/$name/undo", function () use ($undo, $name) { ($undo[$name] ?? fn () => null)(); return Response::text('x'); });
}
$state = fn () => json_encode([date_default_timezone_get(), stat('.')['ino'], umask(), setlocale(LC_ALL, 0), getenv('SECRET'), error_reporting(), get_include_path(), gc_enabled(), $_GET,
    @assert_options(ASSERT_CALLBACK), ini_get('assert.callback')]);
$server->get('/state', fn () => Response::text($state()));
$server->get('/waits', function () use ($state) { $before = $state(); delay(0.03); return Response::text($before . ($before === $state() ? '' : $state())); });
PHP, 'workers: 1', ['-dmemory_limit=32M', '-dzend.assertions=1', '-dassert.exception=0']);
    $start = $server->get('/state')->body;
    // A PHP with threads knows its directory by the path, so it does not follow a rename.
    foreach (array_diff(['removed', 'renamed', 'limit', 'all'], PHP_ZTS ? ['renamed'] : []) as $name) {
        [$waiting, $beside] = [$server->connect(), $server->connect()];
        $waiting->start('GET', "/$name");
        usleep(20000);
        $beside->start('GET', '/waits');
        $seen = ['meanwhile' => $server->get('/state')->body, 'beside' => $beside->answer()->body];
        $status = $waiting->answer()->status;
        $seen['after'] = $server->get('/state')->body;
        $status .= $server->get("/$name/ends")->status;
        $seen['ended'] = $server->get('/state')->body;
        $server->get("/$name/undo");
        $seen['undone'] = $server->get('/waits')->body;
        foreach ($seen as $when => $state) {
            if ($state !== $start || $status !== '200200') {
                echo "$way, $name, $when: $status $state\n";
            }
        }
    }
    var_dump($server->stop(), substr_count($server->log(), 'HANDLER'), substr_count($server->log(), 'started pid'));
    echo implode("\n", array_unique(preg_replace('~^.*(warning|error) +\[.*?\] |[0-9]+~', '', explode("\n", $server->logged('~putting back|ended pid.*signal|exit code [^0]| has changed the ~'))))), "\n";
}
?>
--EXPECT--
int(0)
int(0)
int(1)
putting back what a handler has changed: Failed to set memory limit to  bytes (Current memory usage is  bytes)
int(0)
int(0)
int(1)
putting back what a handler has changed: Failed to set memory limit to  bytes (Current memory usage is  bytes)
int(0)
int(0)
int(1)
putting back what a handler has changed: Failed to set memory limit to  bytes (Current memory usage is  bytes)
int(0)
int(0)
int(1)
putting back what a handler has changed: Failed to set memory limit to  bytes (Current memory usage is  bytes)
