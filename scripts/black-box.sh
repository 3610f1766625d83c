#!/usr/bin/env bash
# Runs Rust black-box tests and repeats failed ones: scripts/black-box.sh cargo test … [-- ARGUMENTS].
#
# These tests start servers and databases, several at a time, while the valgrind suite also runs. A failed test has found a fault,
# or did not get enough processor time. Up to FLAKY_MAX failed tests therefore run again, each alone, RUNS_ALONE times. If every
# run passes, the suite passes and reports the tests as FLAKY: each of them still has a fault to find. If more tests fail, none
# is repeated and the suite fails.
set -uo pipefail

readonly FLAKY_MAX=2 # tests
readonly RUNS_ALONE=3

log=$(mktemp)
trap 'rm -f "$log"' EXIT
command=()
arguments=()
is_for_test=
for word in "$@"; do
    if [ "$word" = -- ]; then
        is_for_test=1
    elif [ -n "$is_for_test" ]; then
        arguments+=("$word")
    else
        command+=("$word")
    fi
done
"${command[@]}" -- "${arguments[@]}" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" != 0 ] || exit 0

# libtest lists failed tests at the end of each test binary: after a line "failures:", four spaces and a name per line.
mapfile -t failed < <(sed -n '/^failures:$/,/^test result:/s/^    \([A-Za-z0-9_:]\+\)$/\1/p' "$log" | sort -u)
# A binary that did not compile or that crashed prints no list.
programs=$(grep -c '^test result: FAILED' "$log")
targets=$(grep -c '^    `.*--[a-z]* *[a-z0-9_-]*`$' "$log")
if [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt $FLAKY_MAX ] || [ "$programs" != "$targets" ]; then
    exit "$status"
fi
for name in "${failed[@]}"; do
    for run in $(seq $RUNS_ALONE); do
        printf -- '-- again, alone, %d of %d: %s\n' "$run" $RUNS_ALONE "$name"
        "${command[@]}" -- --exact "$name" >"$log" 2>&1
        status=$?
        # A filter that matches no test exits with status 0. So the output must contain a passed test.
        if [ $status != 0 ] || [ "$(grep -c '^test result: ok\. 1 passed' "$log")" = 0 ]; then
            cat "$log"
            exit 1
        fi
    done
done
printf 'FLAKY: %s\n' "${failed[@]}"
