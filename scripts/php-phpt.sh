#!/usr/bin/env bash
# Runs PHP's own tests with and without hooks, and lists the tests whose results differ.
#
#   scripts/php-phpt.sh [--outside | --inside] CHECKOUT [FOLDER…]
#
# CHECKOUT is a checkout of php-src, if possible of the version of PHP under test. FOLDER is a folder in it, such as
# ext/standard/tests/file.
#
# Each test runs three times: without hooks, with all hooks in a script, and with all hooks in a task of a server, where functions
# wait. --outside selects only the run in a script, and --inside only the run in a task. A test that fails in every run counts if
# its output differs. A test that exceeds its time limit is killed and reported. Some tests differ by resource numbers. Inside a
# task, tests may also differ if they inspect including files, global variables or shutdown functions, call exit or fork.
# Tests of curl and ftp start servers: run them with --outside.
#
# FERMATA_EXTENSION: the extension (default build/fermata.so). PHP: the php command. EXTENSIONS: further extensions to load.
# TEST_SECONDS_MAX: time limit of one test, in seconds (default 30).
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
extension=${FERMATA_EXTENSION:-$root/build/fermata.so}
php=$(command -v "${PHP:-php}")
modes=(outside inside)
case ${1:-} in
    --outside) modes=(outside) && shift ;;
    --inside) modes=(inside) && shift ;;
esac
if [ $# -eq 0 ] || [ ! -d "$1/ext/standard/tests" ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | grep -v '^set' >&2
    exit 2
fi
checkout=$(cd "$1" && pwd)
shift
folders=("$@")
[ ${#folders[@]} -gt 0 ] || folders=(ext/standard/tests/file ext/standard/tests/streams ext/standard/tests/network
    ext/standard/tests/http ext/standard/tests/general_functions ext/sockets/tests ext/pcntl/tests
    ext/openssl/tests ext/pdo/tests ext/pdo_sqlite/tests ext/sqlite3/tests)

work=$root/build/php-phpt
rm -rf "$work"
mkdir -p "$work"
# Work on a copy, because tests write files into their folders. Tests find each other by paths relative to themselves and to
# run-tests.php.
for folder in "${folders[@]}" ext/pdo/tests ext/standard/tests; do
    if [ -d "$checkout/$folder" ] && [ ! -e "$work/tests/$folder" ]; then
        mkdir -p "$work/tests/$(dirname "$folder")"
        cp -r "$checkout/$folder" "$work/tests/$folder"
    fi
done
# Prefer the run-tests.php of the installed PHP: it matches the version under test.
# shellcheck disable=SC2016 # the dollar sign is PHP's
api=$("$php" -n -r 'ob_start(); phpinfo(INFO_GENERAL); preg_match("/PHP API => (\d+)/", ob_get_clean(), $m); echo $m[1];')
run_tests=/usr/lib/php/$api/build/run-tests.php
[ -f "$run_tests" ] || run_tests=$checkout/run-tests.php
cp "$run_tests" "$work/tests/run-tests.php"

load=()
directory=$("$php" -n -r 'echo ini_get("extension_dir");')
for name in ${EXTENSIONS:-ctype posix sockets curl ftp pdo pdo_sqlite sqlite3 mbstring simplexml dom xml}; do
    [ ! -f "$directory/$name.so" ] || load+=(-d "extension=$name")
done

cat >"$work/before.php" <<'PHP'
<?php
// Also in the run without hooks, so that objects have the same numbers.
$hooks = Fermata\Hook::cases();
if (getenv('FERMATA_PHPT_MODE') !== 'without') {
    Fermata\Runtime::hook(...$hooks);
}
if (getenv('FERMATA_PHPT_MODE') === 'inside' && isset($_SERVER['SCRIPT_FILENAME']) && !preg_match('/\.(skip|clean)\.php$/', $_SERVER['SCRIPT_FILENAME'])) {
    (static function (): void {
        $server = new Fermata\Server(listen: 'http://127.0.0.1:0', workers: 1, log: new Fermata\Log(level: Fermata\LogLevel::Error));
        $master = getmypid();
        $server->every(0.001, static function () use ($master): void {
            static $has_begun = false;
            if ($has_begun) {
                // The test has called exit().
                posix_kill($master, SIGTERM);
                return;
            }
            $has_begun = true;
            // Also after a fatal error.
            register_shutdown_function(static fn () => posix_kill($master, SIGTERM));
            try {
                (static function (): void {
                    // Make variables global, as at the top level of a script: those that functions of the test declare as global.
                    foreach ([$_SERVER['SCRIPT_FILENAME'], ...glob(dirname($_SERVER['SCRIPT_FILENAME']) . '/*.inc')] as $file) {
                        preg_match_all('/\bglobal\s+([^;]+);|\$GLOBALS\[["\']?(\w+)/', file_get_contents($file), $all);
                        preg_match_all('/\w+/', implode(' ', [...$all[1], ...$all[2]]), $names);
                        foreach (array_diff($names[0], ['this']) as $name) {
                            if ($name[0] !== '_' && !is_numeric($name)) {
                                global $$name;
                            }
                        }
                    }
                    unset($file, $all, $names, $name);
                    include $_SERVER['SCRIPT_FILENAME'];
                })();
            } catch (Throwable $error) {
                echo PHP_EOL, 'Fatal error: Uncaught ', $error, PHP_EOL, '  thrown in ', $error->getFile(), ' on line ', $error->getLine(), PHP_EOL;
            } finally {
                posix_kill($master, SIGTERM);
            }
        });
        $server->run();
        exit;
    })();
}
unset($hooks);
PHP

# Kills a test that exceeds its time limit together with its children. run-tests.php kills only the process that it started;
# forked children would keep running and hold the pipes from which run-tests.php reads.
limited=$work/php-limited
seconds_max=${TEST_SECONDS_MAX:-30}
: >"$work/ended.txt"
cat >"$limited" <<WRAPPER
#!/bin/sh
# The shell would replace the standard input of a background process.
exec 3<&0
began=\$(date +%s)
timeout --signal=KILL $seconds_max "$php" "\$@" <&3 3<&- &
group=\$!
wait \$group
status=\$?
kill -9 "-\$group" 2>/dev/null
# Less time: the test has killed itself.
if [ \$status -eq 137 ] && [ \$((\$(date +%s) - began)) -ge $seconds_max ]; then
    before= file=
    for argument in "\$@"; do
        [ "\$before" != -f ] || file=\$argument
        before=\$argument
    done
    file=\${file#"$work/now/"}
    echo "\$FERMATA_PHPT_MODE: \${file%.php}.phpt was ended after $seconds_max s" >>"$work/ended.txt"
fi
exit \$status
WRAPPER
chmod +x "$limited"

export NO_INTERACTION=1 SKIP_ONLINE_TESTS=1 SKIP_SLOW_TESTS=1 TEST_PHP_EXECUTABLE="$limited"
run() {
    local mode=$1
    export FERMATA_PHPT_MODE=$mode
    rm -rf "$work/now" && cp -r "$work/tests" "$work/now"
    # A separate process group, so that servers which tests started can be killed with it.
    # shellcheck disable=SC2016 # the dollar signs are for the inner shell
    setsid bash -c 'cd "$1" && shift && exec "$@"' - "$work/now" "$php" -n run-tests.php -q -n --no-color --no-progress --offline \
        -j"${JOBS:-$(nproc)}" --set-timeout $((seconds_max + 30)) -p "$limited" "${load[@]}" -d "extension=$extension" -d "auto_prepend_file=$work/before.php" \
        -d fermata.blocking_call_ms=0 "${folders[@]}" >"$work/$mode.txt" 2>&1 &
    local group=$!
    wait "$group" || true
    kill -9 -- "-$group" 2>/dev/null || true
    mkdir -p "$work/$mode"
    (cd "$work/now" && find . -name '*.out' -exec cp --parents {} "$work/$mode" \;)
    grep '^Tests passed' "$work/$mode.txt" | sed "s/^/$mode: /" || tail -n 3 "$work/$mode.txt"
}
for mode in without "${modes[@]}"; do
    run "$mode"
done
cat "$work/ended.txt"

# shellcheck disable=SC2016 # the dollar signs are PHP's
"$php" -n -r '
    [, $work] = $argv;
    $read = function (string $mode) use ($work): array {
        preg_match_all("~^(PASS|FAIL|SKIP|BORK|WARN|LEAK|XFAIL)(?:&\w+)* .*?\[(\S+\.phpt)\]~ms", file_get_contents("$work/$mode.txt"), $all, PREG_SET_ORDER);
        $found = [];
        foreach ($all as [, $state, $path]) {
            $file = "$work/$mode/" . substr($path, 0, -4) . "out";
            $out = is_file($file) ? file_get_contents($file) : "";
            // Numbers (process ids, resources, objects, times) always differ, and the stack is deeper inside a task.
            $out = preg_replace(["~^Stack trace:\R(#.*\R)*~m", "~^#\d.*\R?~m", "~\d+~", "~[ \t]+$~m"], ["", "", "N", ""], $out);
            $found[$path] = [$state, $out];
        }
        return $found;
    };
    $without = $read("without");
    if (!$without) {
        file_put_contents("$work/differences.txt", "without: no test has run: see without.txt\n");
        exit(1);
    }
    $lines = [];
    foreach (array_slice($argv, 2) as $mode) {
        $count = 0;
        $with = $read($mode);
        foreach (array_keys(array_diff_key($without, $with)) as $path) {
            $lines[] = "$mode: $path: {$without[$path][0]} without, missing with hooks";
            $count++;
        }
        foreach ($with as $path => [$state, $out]) {
            [$expected, $text] = $without[$path] ?? ["none", ""];
            if ($state !== $expected || $out !== $text) {
                $lines[] = "$mode: $path: $expected without, $state with hooks";
                $count++;
            }
        }
        echo "$mode: $count of ", count($without), " tests come out differently\n";
    }
    file_put_contents("$work/differences.txt", implode("\n", $lines) . ($lines ? "\n" : ""));
    exit($lines ? 1 : 0);
' -- "$work" "${modes[@]}" || { echo "see $work/differences.txt"; exit 1; }
