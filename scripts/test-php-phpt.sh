#!/usr/bin/env bash
# Tests php-phpt.sh: it kills and reports a PHP test that does not exit, and kills processes that a test has left running.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
# Kill processes that remain after a failed check.
end() {
    while read -r pid; do
        kill -9 "$pid" 2>/dev/null || true
    done <"$place/pids"
    rm -rf "$place"
}
touch "$place/pids"
trap end EXIT
passed=0
failed=0

check() { # what, then a command
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'php-phpt: %s\nstatus %s\n%s\n' "$what" "$status" "$output" >&2
    fi
}
has_line() { grep -qxF -- "$2" <<<"$1"; }
# A zombie also counts as exited.
is_over() { [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status" 2>/dev/null; }
are_over() {
    local pid deadline=$((SECONDS + 60))
    while read -r pid; do
        until is_over "$pid"; do
            [ "$SECONDS" -lt "$deadline" ] || return 1
            sleep 0.05
        done
    done <"$place/pids"
}

# Run a copy of the script, because the script writes into its own checkout.
mkdir -p "$place/checkout/scripts"
cp "$root/scripts/php-phpt.sh" "$place/checkout/scripts/"
tests=ext/standard/tests/bound
mkdir -p "$place/php-src/$tests"
phpt() { # name, code, expected output
    printf -- '--TEST--\n%s\n--FILE--\n<?php\n%s\n?>\n--EXPECT--\n%s\n' "$1" "$2" "$3" >"$place/php-src/$tests/$1.phpt"
}
note="file_put_contents('$place/pids', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX);"
phpt endless "$note while (true);" 'nothing'
# The forked child holds the pipes that run-tests.php reads.
phpt leaves "@unlink('$place/forked');
if (pcntl_fork() === 0) { $note touch('$place/forked'); while (true); }
while (!file_exists('$place/forked')) { usleep(1000); clearstatcache(); } echo 'left';" 'left'

status=0
output=$(FERMATA_EXTENSION=${FERMATA_EXTENSION:-$root/build/fermata.so} TEST_SECONDS_MAX=2 \
    timeout 300 "$place/checkout/scripts/php-phpt.sh" --outside "$place/php-src" "$tests" 2>&1) || status=$?
check "it ends" [ "$status" != 124 ]
check "all tests have run, and none comes out differently" has_line "$output" 'outside: 0 of 2 tests come out differently'
for mode in without outside; do
    check "it says which test was ended ($mode)" has_line "$output" "$mode: $tests/endless.phpt was ended after 2 s"
done
check "both have run, and a child" [ "$(wc -l <"$place/pids")" -ge 4 ]
check "nothing is left running" are_over

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
