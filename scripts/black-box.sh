#!/usr/bin/env bash
# Runs black-box tests of Rust: scripts/black-box.sh cargo test … [-- ARGUMENTS].
#
# These start servers, browsers' peers and databases, several at a time, beside the suite under valgrind, and wait for what
# each does. One that fails there has shown a fault or was starved. So a few that failed are run again, each alone and
# several times in a row; if each passes each time the suite passes, and it names them as FLAKY: each is a fault to
# be found. More than a few that fail at once are not chance and not run again.
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

# As libtest lists them at the end of each program: four spaces and a name, after a line "failures:".
mapfile -t failed < <(sed -n '/^failures:$/,/^test result:/s/^    \([A-Za-z0-9_:]\+\)$/\1/p' "$log" | sort -u)
# What did not compile, or crashed, has no list.
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
        # A name that none of the programs knows would pass.
        if [ $status != 0 ] || [ "$(grep -c '^test result: ok\. 1 passed' "$log")" = 0 ]; then
            cat "$log"
            exit 1
        fi
    done
done
printf 'FLAKY: %s\n' "${failed[@]}"
