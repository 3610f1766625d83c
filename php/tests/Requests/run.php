<?php

/*
 * Runs PHP's own tests of sessions, requests and uploads as requests to a server with a FrankenPHP worker script.
 *
 *   php php/tests/Requests/run.php [--show] [PHP-SRC [TEST…]]
 *
 * PHP-SRC is the source tree of the running PHP's version (php-8.2.32 …). The default is FERMATA_PHP_SOURCE, then the download of
 * scripts/source-php.sh. Without a source tree a message is printed and no test runs. TEST is a part of a test's path. --show
 * prints the actual and the expected output.
 *
 * Each test runs in a separate server with its --INI--, as one request with its --GET--, --COOKIE--, --POST-- or --POST_RAW--. The
 * response is compared like in run-tests.php. expected-failures.txt lists the known failures, each with its reason. The run fails
 * if any other test fails, or if a listed test passes.
 */

declare(strict_types=1);

use Fermata\Testing\TestServer;

require dirname(__DIR__) . '/autoload.php';

const FOLDERS = ['ext/session/tests', 'tests/basic'];
/** PHP version whose tests expected-failures.txt lists. */
const LISTED = '8.2';
/** Time limit in seconds for a test that hangs; a normal one takes milliseconds. */
const SECONDS_MAX = 20.0;
/** Settings of run-tests.php. */
const SETTINGS = [
    'output_handler=', 'open_basedir=', 'disable_functions=', 'output_buffering=Off', 'error_reporting=32767', 'display_errors=1',
    'display_startup_errors=1', 'log_errors=0', 'html_errors=0', 'report_memleaks=1', 'docref_root=', 'docref_ext=.html',
    'error_prepend_string=', 'error_append_string=', 'auto_prepend_file=', 'auto_append_file=', 'ignore_repeated_errors=0',
    'precision=14', 'serialize_precision=-1', 'memory_limit=128M', 'zend.assertions=1', 'zend.exception_ignore_args=0',
    'zend.exception_string_param_max_len=15', 'short_open_tag=0',
    // Debian's default differs.
    'session.save_path=',
];

/** @return array<string, string> */
function sections(string $path): array
{
    $sections = [];
    $name = null;
    foreach (file($path) as $line) {
        if (preg_match('/^--([_A-Z]+)--/', $line, $found)) {
            $name = $found[1];
            $sections[$name] = '';
        } elseif ($name !== null) {
            $sections[$name] .= $line;
        }
    }
    if (isset($sections['FILEEOF'])) {
        $sections['FILE'] = rtrim($sections['FILEEOF'], "\r\n");
    }
    if (isset($sections['FILE_EXTERNAL'])) {
        $sections['FILE'] = (string) file_get_contents(dirname($path) . '/' . trim($sections['FILE_EXTERNAL']));
    }
    return $sections;
}

/** Converts --EXPECTF-- to a regular expression, like run-tests.php. */
function pattern(string $expected): string
{
    $parts = explode('%r', $expected);
    $pattern = '';
    foreach ($parts as $i => $part) {
        $pattern .= $i % 2 === 0 ? preg_quote($part, '/') : "($part)";
    }
    return strtr($pattern, [
        '%e' => '\/', '%s' => '[^\r\n]+', '%S' => '[^\r\n]*', '%a' => '.+', '%A' => '.*', '%w' => '\s*', '%i' => '[+-]?\d+',
        '%d' => '\d+', '%x' => '[0-9a-fA-F]+', '%f' => '[+-]?(?:\d+|(?=\.\d))(?:\.\d+)?(?:[Ee][+-]?\d+)?', '%c' => '.', '%0' => '\x00',
    ]);
}

/** @param array<string, string> $sections */
function matches(array $sections, string $output): bool
{
    // Objects of the library shift the object numbers, so ignore them.
    $lines = static fn(string $text): string => preg_replace('/\)#(\d+|%d) \(/', ')#N (', str_replace("\r\n", "\n", trim($text)));
    $output = $lines($output);
    if (isset($sections['EXPECT'])) {
        return $output === $lines($sections['EXPECT']);
    }
    $expected = $lines($sections['EXPECTF'] ?? $sections['EXPECTREGEX']);
    $expected = isset($sections['EXPECTF']) ? pattern($expected) : $expected;
    return preg_match("/^$expected\$/s", $output) === 1;
}

/**
 * Returns php options for the settings and shared extensions of a test.
 *
 * @param array<string, string> $sections
 * @return list<string>
 */
function options(array $sections, string $folder, string $temporary): array
{
    $options = ['-n'];
    foreach (array_unique(['posix', ...preg_split('/\s+/', $sections['EXTENSIONS'] ?? '', -1, PREG_SPLIT_NO_EMPTY)]) as $name) {
        if (is_file(PHP_EXTENSION_DIR . "/$name.so")) {
            $options[] = "-dextension=$name";
        }
    }
    $settings = preg_split('/\R/', strtr($sections['INI'] ?? '', ['{PWD}' => $folder, '{TMP}' => $temporary]), -1, PREG_SPLIT_NO_EMPTY);
    foreach ([...SETTINGS, ...$settings] as $setting) {
        $options[] = '-d' . implode('=', array_map(trim(...), explode('=', $setting, 2)));
    }
    return $options;
}

/**
 * Runs --SKIPIF-- or --CLEAN--.
 *
 * @param list<string> $options
 * @param array<string, string> $environment
 */
function script(string $code, string $file, array $options, array $environment): string
{
    file_put_contents($file, $code);
    $process = proc_open([PHP_BINARY, ...$options, $file], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $pipes, dirname($file), $environment + getenv());
    $printed = (string) stream_get_contents($pipes[1]);
    proc_close($process);
    return $printed;
}

/**
 * Returns method, target, headers and body, as run-tests.php passes them to php-cgi.
 *
 * @param array<string, string> $sections
 * @return array{string, string, array<string, string>, string}
 */
function request(array $sections): array
{
    $headers = [];
    $method = 'GET';
    $body = '';
    if (isset($sections['COOKIE'])) {
        $headers['Cookie'] = trim($sections['COOKIE']);
    }
    if (isset($sections['POST_RAW'])) {
        $method = 'POST';
        $lines = [];
        foreach (explode("\n", trim($sections['POST_RAW'])) as $line) {
            if (!isset($headers['Content-Type']) && preg_match('/^Content-Type:(.*)/i', $line, $found)) {
                $headers['Content-Type'] = trim($found[1]);
            } else {
                $lines[] = $line;
            }
        }
        // The files contain LF line ends, which PHP accepts. Clients send CRLF, and the server accepts only that.
        $isForm = stripos($headers['Content-Type'] ?? '', 'multipart/') === 0;
        $body = $isForm ? preg_replace('/\r?\n/', "\r\n", implode("\n", $lines)) : implode("\n", $lines);
    } elseif (isset($sections['POST'])) {
        [$method, $body, $headers['Content-Type']] = ['POST', trim($sections['POST']), 'application/x-www-form-urlencoded'];
    }
    $query = trim($sections['GET'] ?? '');
    return [$method, '/' . ($query === '' ? '' : "?$query"), $headers, $body];
}

/** @return array{string, string} PASS, FAIL or SKIP, and details */
function run(string $path): array
{
    $sections = sections($path);
    $base = substr($path, 0, -5);
    foreach (['ARGS' => 'arguments of a command', 'ENV' => 'an environment for each request', 'STDIN' => 'standard input', 'REDIRECTTEST' => 'other tests'] as $name => $what) {
        if (isset($sections[$name])) {
            return ['SKIP', "needs $what (--$name--)"];
        }
    }
    if (isset($sections['XFAIL'])) {
        return ['SKIP', 'PHP itself fails it (--XFAIL--)'];
    }
    $temporary = sys_get_temp_dir() . '/' . strtr(basename($base), '%', '_') . '.tmp';
    @mkdir($temporary);
    $environment = ['TMPDIR' => $temporary, 'FERMATA_TEST_FILE' => "$base.php", 'TEST_PHP_EXECUTABLE' => PHP_BINARY, 'SKIP_SLOW_TESTS' => '1'];
    $options = options($sections, dirname($path), $temporary);
    // Skip the common include, which only checks for the extension.
    $skip = trim($sections['SKIPIF'] ?? '');
    if ($skip !== '' && !preg_match('/^<\?php include\(\'skipif\.inc\'\); (\?>)?$/', $skip)) {
        $printed = ltrim(script($skip, "$base.skip.php", $options, $environment));
        if (strncasecmp($printed, 'skip', 4) === 0) {
            return ['SKIP', trim(substr($printed, 4))];
        }
    }
    file_put_contents("$base.php", $sections['FILE']);
    try {
        $server = new TestServer(dirname(__DIR__, 2) . '/bin/fermata-frankenphp', $environment, [__DIR__ . '/worker.php'], $options, SECONDS_MAX);
        $answer = $server->request(...request($sections));
        $problem = null;
    } catch (Throwable $error) {
        return ['FAIL', 'no answer: ' . $error->getMessage() . "\n" . (isset($server) ? $server->log() : '')];
    } finally {
        if (isset($sections['CLEAN'])) {
            script($sections['CLEAN'], "$base.clean.php", $options, $environment);
        }
    }
    // Remove the worker loop's frames from a trace, because a plain script has none.
    $frames = '~#(\d+) ' . preg_quote(__DIR__, '~') . '/worker\.php\(\d+\): include\(.*\)\n(?:#\d+ .*\n)*?#\d+ \{main\}~';
    $body = preg_replace($frames, '#$1 {main}', $answer->body);
    if (!matches($sections, $body)) {
        return ['FAIL', "status $answer->status\n$body\n-- expected --\n" . ($sections['EXPECT'] ?? $sections['EXPECTF'] ?? $sections['EXPECTREGEX'])
            . "\n-- log --\n" . $server->log()];
    }
    foreach (preg_split('/\R/', trim($sections['EXPECTHEADERS'] ?? ''), -1, PREG_SPLIT_NO_EMPTY) as $line) {
        [$name, $value] = array_map(trim(...), explode(':', $line, 2));
        $found = strcasecmp($name, 'Status') === 0 ? (string) $answer->status : implode(', ', $answer->headers[strtolower($name)] ?? []);
        if (strcasecmp($name, 'Status') === 0 ? (int) $value !== $answer->status : $found !== $value) {
            return ['FAIL', "$name: $found\n-- expected --\n$line"];
        }
    }
    return ['PASS', ''];
}

/** @return array<string, string> path to reason */
function expectedFailures(): array
{
    $expected = [];
    foreach (file(__DIR__ . '/expected-failures.txt', FILE_IGNORE_NEW_LINES) as $line) {
        if ($line !== '' && $line[0] !== '#') {
            [$path, $reason] = explode(': ', $line, 2) + [1 => ''];
            $expected[$path] = $reason;
        }
    }
    return $expected;
}

$arguments = array_slice($argv, 1);
$shows = in_array('--show', $arguments, true);
$arguments = array_values(array_diff($arguments, ['--show']));
$own = PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION;
$cache = getenv('FERMATA_CACHE') ?: (getenv('XDG_CACHE_HOME') ?: getenv('HOME') . '/.cache') . '/fermata';
$source = ($arguments[0] ?? '') ?: (getenv('FERMATA_PHP_SOURCE') ?: "$cache/php$own-source/tree");
preg_match('/^#define PHP_VERSION "(\d+\.\d+)/m', (string) @file_get_contents("$source/main/php_version.h"), $version);
$problem = match (true) {
    !isset($version[1]) => "$source is no source of PHP",
    $version[1] !== $own => "$source is PHP $version[1], and this PHP is $own",
    $own !== LISTED && !isset($arguments[0]) => 'expected-failures.txt is about the tests of PHP ' . LISTED . ", and this PHP is $own; name the source as an argument to run them",
    default => null,
};
if ($problem !== null) {
    echo "requests: NOT RUN: $problem; FERMATA_PHP_SOURCE names a source of PHP, and scripts/source-php.sh --source downloads one\n";
    exit(isset($arguments[0]) ? 2 : 0);
}
if (!getenv('FERMATA_EXTENSION')) {
    putenv('FERMATA_EXTENSION=' . dirname(__DIR__, 3) . '/build/fermata.so');
}

// Tests write files to their folder, so run a copy.
$work = (getenv('BUILD') ?: dirname(__DIR__, 3) . '/build') . '/requests';
exec('rm -rf ' . escapeshellarg($work));
$paths = [];
foreach (FOLDERS as $folder) {
    mkdir("$work/$folder", recursive: true);
    exec('cp -r ' . escapeshellarg("$source/$folder/.") . ' ' . escapeshellarg("$work/$folder"));
    foreach (glob("$work/$folder/*.phpt") as $path) {
        $name = substr($path, strlen($work) + 1);
        // In tests/basic, select only tests with a request.
        $isAsked = $folder !== 'tests/basic' || preg_match('/^--(GET|POST|POST_RAW|COOKIE|EXPECTHEADERS)--/m', (string) file_get_contents($path));
        $filters = array_slice($arguments, 1);
        if ($isAsked && ($filters === [] || array_filter($filters, fn(string $part): bool => str_contains($name, $part)))) {
            $paths[$name] = $path;
        }
    }
}
$work = realpath($work);
mkdir("$work/tmp");
putenv("TMPDIR=$work/tmp");

// Each child runs every Nth test and writes a line of JSON per test.
$begin = microtime(true);
$jobs = max(2, 2 * (int) shell_exec('nproc'));
$children = [];
for ($job = 0; $job < $jobs; $job++) {
    $child = pcntl_fork();
    if ($child === 0) {
        $file = fopen("$work/results.$job", 'w');
        foreach (array_keys($paths) as $i => $name) {
            if ($i % $jobs === $job) {
                [$state, $text] = run(realpath($paths[$name]));
                fwrite($file, json_encode([$name, $state, $text], JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
            }
        }
        exit(0);
    }
    $children[] = $child;
}
foreach ($children as $child) {
    pcntl_waitpid($child, $status);
}
$results = [];
for ($job = 0; $job < $jobs; $job++) {
    foreach (file("$work/results.$job") ?: [] as $line) {
        [$name, $state, $text] = json_decode($line, true);
        $results[$name] = [$state, $text];
    }
}
ksort($results);

$expected = expectedFailures();
$counts = ['passed' => 0, 'skipped' => 0, 'known to differ' => 0, 'failed' => 0];
$reasons = [];
foreach (array_keys($paths) as $name) {
    [$state, $text] = $results[$name] ?? ['FAIL', 'has not run'];
    $isExpected = isset($expected[$name]);
    $what = match (true) {
        $state === 'SKIP' => 'skipped',
        ($state === 'PASS') === !$isExpected => $state === 'PASS' ? 'passed' : 'known to differ',
        default => 'failed',
    };
    if ($state === 'FAIL' && $isExpected) {
        $what = 'known to differ';
    }
    $counts[$what]++;
    if ($what === 'skipped') {
        $reasons[$text] = ($reasons[$text] ?? 0) + 1;
    }
    if ($what === 'failed') {
        echo "FAILED $name", $state === 'PASS' ? ': it passes, and expected-failures.txt names it' : '', "\n";
    }
    if ($shows && $state === 'FAIL') {
        echo "== $name: ", $expected[$name] ?? 'not known', "\n$text\n\n";
    }
}
foreach ($filters ? [] : array_diff_key($expected, $paths) as $name => $reason) {
    echo "FAILED $name: expected-failures.txt names it, and there is no such test\n";
    $counts['failed']++;
}
foreach ($reasons as $reason => $count) {
    echo "skipped $count: $reason\n";
}
printf("requests: %s in %d s\n", implode(', ', array_map(fn(string $what, int $count): string => "$count $what", array_keys($counts), $counts)), microtime(true) - $begin);
exit($counts['failed'] || $counts['passed'] + $counts['known to differ'] === 0 ? 1 : 0);
