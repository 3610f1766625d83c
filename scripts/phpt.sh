#!/usr/bin/env bash
# Runs the extension's tests (ext/tests/*.phpt) with PHP's own run-tests.php.
#
#   scripts/phpt.sh [--valgrind] [TEST…]     TEST is a name or a path; default: all tests
#
# FERMATA_EXTENSION: the extension (default build/fermata.so). PHP: the php command. FERMATA_XDEBUG: an xdebug.so.
# With --valgrind, servers and the value-object tests run under memcheck with PHP's allocator disabled; scripts that are only
# clients of a server do not. An invalid access or definite leak with a stack frame of the extension fails the run.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
extension=${FERMATA_EXTENSION:-$root/build/fermata.so}
php=$(command -v "${PHP:-php}")

valgrind=
tests=()
for argument in "$@"; do
    case $argument in
        --valgrind) valgrind=yes ;;
        *) tests+=("$(basename "$argument" .phpt).phpt") ;;
    esac
done
work=${BUILD:-$root/build}/phpt${valgrind:+-valgrind}
if [ ! -f "$extension" ]; then
    echo "phpt: $extension not found; run make first or set FERMATA_EXTENSION" >&2
    exit 1
fi

# run-tests.php writes files next to the tests, so they run in a copy.
rm -rf "$work"
mkdir -p "$work/valgrind"
cp -r "$root/ext/tests" "$work/tests"
# shellcheck disable=SC2016 # the dollar signs are PHP's
api=$("$php" -n -r 'ob_start(); phpinfo(INFO_GENERAL); preg_match("/PHP API => (\d+)/", ob_get_clean(), $m); echo $m[1];')
run_tests=${RUN_TESTS:-}
for candidate in "/usr/lib/php/$api/build/run-tests.php" "$(php-config --prefix 2>/dev/null)/lib/php/build/run-tests.php"; do
    [ -n "$run_tests" ] || [ ! -f "$candidate" ] || run_tests=$candidate
done
if [ -z "$run_tests" ]; then
    echo "phpt: run-tests.php not found; install php-dev or set RUN_TESTS to its path" >&2
    exit 1
fi

# scripts/setup.sh unpacks this file.
xdebug=$root/build/xdebug/$("$php" -n -r 'echo basename(PHP_EXTENSION_DIR);').so
if [ -z "${FERMATA_XDEBUG:-}" ] && [ -f "$xdebug" ]; then
    export FERMATA_XDEBUG=$xdebug
fi

# Without this, run-tests.php would load the host's extensions into its helper processes.
export PHP_INI_SCAN_DIR=
export NO_INTERACTION=1 FERMATA_EXTENSION="$extension"
# Two jobs per core: most tests mainly wait.
jobs=$((2 * $(nproc)))
# Slower tests are listed. Under memcheck, each test takes about 20 times as long.
SLOW_MS=$([ -n "$valgrind" ] && echo 60000 || echo 10000)
# The PHP under test. It differs from the PHP that runs run-tests.php if it is emulated.
subject=${FERMATA_PHPT_PHP:-$php}
order=()
if [ -n "$valgrind" ]; then
    # Each process writes a separate report, including forked workers. Stacks of fibers are 2 MiB apart, so memcheck treats a
    # larger change of the stack pointer than any frame needs as a switch between stacks.
    subject=$work/php-valgrind
    cat >"$subject" <<WRAPPER
#!/bin/sh
# Without valgrind: queries of run-tests.php about PHP, and clients of a server, which use only the codec of the extension.
script=
for argument in "\$@"; do
    case \$argument in *.php) script=\$argument ;; esac
done
if [ -z "\$script" ] || { grep -q 'new TestServer' "\$script" && ! grep -q 'thrown(' "\$script"; }; then
    exec "$php" "\$@"
fi
# run-tests.php sets SCRIPT_FILENAME to the test, and servers of the test inherit it.
test=\$(basename "\${SCRIPT_FILENAME:-unknown}" .php)
exec valgrind -q --max-stackframe=1000000 --num-callers=30 --suppressions="$root/ext/tests/valgrind.supp" \\
    --log-file="$work/valgrind/\$test.%p.log" "$php" "\$@"
WRAPPER
    chmod +x "$subject"
    export USE_ZEND_ALLOC=0 ZEND_DONT_UNLOAD_MODULES=1 FERMATA_PHPT_WAIT_S=600
    # Under memcheck, operations whose default limit is seconds take minutes on a busy machine. Slow workers must not be killed.
    export FERMATA_DRAIN_TIMEOUT_MS=60000 FERMATA_STALL_TIMEOUT_MS=0
    # With --shuffle, run-tests.php distributes tests in batches of four instead of up to 32, which balances its workers.
    order=(--shuffle)
    # The options are in the environment, so that a test of a PHP function that leaks by design can override them.
    export VALGRIND_OPTS='--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite'
fi
export TEST_PHP_EXECUTABLE="$subject"
export FERMATA_PHPT_SERVER="$subject -n -d extension=$extension"

[ ${#tests[@]} -gt 0 ] || tests=(.)
cd "$work/tests"
status=0
"$php" -n "$run_tests" -q -n --no-color --no-progress --offline -j"$jobs" --set-timeout 900 "${order[@]}" \
    -g FAIL,BORK,WARN,LEAK,XFAIL,SKIP --show-diff --show-slow "$SLOW_MS" \
    -p "$subject" -d extension="$extension" "${tests[@]}" >"$work/output" 2>&1 || status=$?
sed -n '/^Number of tests/,$p' "$work/output" | grep -v '^=*$' || status=1
if [ "$status" -ne 0 ] || ! grep -q '^Tests passed' "$work/output"; then
    sed '/^Number of tests/,$d' "$work/output"
    status=1
fi
if grep -q '^Tests failed *: *[1-9]' "$work/output"; then
    status=1
fi

# Write the names of failed tests, one per line. test-all.sh runs these tests again.
sed -n 's/.*\[\([a-z0-9_]*\)\.phpt\].*/\1/p' <(sed -n '/^FAILED TEST SUMMARY/,/^WARNED\|^====/p' "$work/output") | sort -u >"$work/failed"

count() { sed -n "s/^Tests $1 *: *\([0-9]*\).*/\1/p" "$work/output" | grep . || echo 0; }
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"

if [ -n "$valgrind" ]; then
    # Without its own allocator, PHP itself causes reports. Only reports with a stack frame of the extension count.
    : >"$work/reports"
    for log in "$work"/valgrind/*.log; do
        sed 's/^==[0-9]*== \{0,1\}//' "$log" | awk -v RS= -v test="$(basename "$log" .log)" \
            '/fermata|SIGSEGV|SIGABRT/ { print test ":\n" $0 "\n" }' >>"$work/reports"
    done
    processes=$(find "$work/valgrind" -name '*.log' | wc -l)
    if [ -s "$work/reports" ]; then
        cat "$work/reports"
        echo "valgrind: reports in $processes processes; whole logs in $work/valgrind"
        status=1
    else
        echo "valgrind: no invalid access and no leak in $processes processes"
    fi
fi
exit "$status"
