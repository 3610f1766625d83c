#!/usr/bin/env bash
# Runs the extension's tests (ext/tests/*.phpt) with PHP's own run-tests.php.
#
#   scripts/phpt.sh [--valgrind] [TEST…]     TEST is a name or a path; default: all
#
# FERMATA_EXTENSION names the extension (default build/fermata.so), PHP the php command, FERMATA_XDEBUG an xdebug.so.
# With --valgrind every server and the value-object tests run under memcheck, without PHP's own allocator; scripts
# that only talk to a server do not. An invalid access or a definite leak with a frame of ours fails the run.
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

# run-tests.php writes beside the tests, so they run in a copy.
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

# What setup.sh has unpacked.
xdebug=$root/build/xdebug/$("$php" -n -r 'echo basename(PHP_EXTENSION_DIR);').so
if [ -z "${FERMATA_XDEBUG:-}" ] && [ -f "$xdebug" ]; then
    export FERMATA_XDEBUG=$xdebug
fi

# run-tests.php starts its helpers with all the extensions of the machine, which are not what is tested.
export PHP_INI_SCAN_DIR=
export NO_INTERACTION=1 FERMATA_EXTENSION="$extension"
# Most of these tests wait most of their time.
jobs=$((2 * $(nproc)))
# What is tested where it is not what runs the tests: a PHP that is emulated.
subject=${FERMATA_PHPT_PHP:-$php}
order=()
if [ -n "$valgrind" ]; then
    # One report per process, forked workers included. A jump of the stack pointer by more than a frame ever has is a
    # switch to the stack of another fiber, which lie 2 MiB apart.
    subject=$work/php-valgrind
    cat >"$subject" <<WRAPPER
#!/bin/sh
# What run-tests.php asks PHP itself is no test, and a client has nothing of the extension but the codec.
script=
for argument in "\$@"; do
    case \$argument in *.php) script=\$argument ;; esac
done
if [ -z "\$script" ] || { grep -q 'new TestServer' "\$script" && ! grep -q 'thrown(' "\$script"; }; then
    exec "$php" "\$@"
fi
exec valgrind -q --max-stackframe=1000000 --num-callers=30 --suppressions="$root/ext/tests/valgrind.supp" \\
    --log-file="$work/valgrind/%p.log" "$php" "\$@"
WRAPPER
    chmod +x "$subject"
    export USE_ZEND_ALLOC=0 ZEND_DONT_UNLOAD_MODULES=1 FERMATA_PHPT_WAIT_S=600
    # Memcheck on a busy machine takes minutes for what the defaults give seconds: a slow worker is none to kill.
    export FERMATA_DRAIN_TIMEOUT_MS=60000 FERMATA_STALL_TIMEOUT_MS=0
    # Shuffled ones are given out four at a time and not by the third of all.
    order=(--shuffle)
    # In the environment and not in the command, so that a test whose PHP leaks by nature can turn it off.
    export VALGRIND_OPTS='--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite'
fi
export TEST_PHP_EXECUTABLE="$subject"
export FERMATA_PHPT_SERVER="$subject -n -d extension=$extension"

[ ${#tests[@]} -gt 0 ] || tests=(.)
cd "$work/tests"
status=0
"$php" -n "$run_tests" -q -n --no-color --no-progress --offline -j"$jobs" --set-timeout 900 "${order[@]}" \
    -g FAIL,BORK,WARN,LEAK,XFAIL,SKIP --show-diff \
    -p "$subject" -d extension="$extension" "${tests[@]}" >"$work/output" 2>&1 || status=$?
sed -n '/^Number of tests/,$p' "$work/output" | grep -v '^=*$' || status=1
if [ "$status" -ne 0 ] || ! grep -q '^Tests passed' "$work/output"; then
    sed '/^Number of tests/,$d' "$work/output"
    status=1
fi
if grep -q '^Tests failed *: *[1-9]' "$work/output"; then
    status=1
fi

# The names of the tests that failed, a line each: test-all.sh runs them again.
sed -n 's/.*\[\([a-z0-9_]*\)\.phpt\].*/\1/p' <(sed -n '/^FAILED TEST SUMMARY/,/^WARNED\|^====/p' "$work/output") | sort -u >"$work/failed"

count() { sed -n "s/^Tests $1 *: *\([0-9]*\).*/\1/p" "$work/output" | grep . || echo 0; }
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"

if [ -n "$valgrind" ]; then
    # PHP itself is not free of reports without its allocator; ours have a frame of the extension.
    : >"$work/reports"
    for log in "$work"/valgrind/*.log; do
        sed 's/^==[0-9]*== \{0,1\}//' "$log" | awk -v RS= '/fermata|SIGSEGV|SIGABRT/ { print $0 "\n" }' >>"$work/reports"
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
