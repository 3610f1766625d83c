#!/usr/bin/env bash
# Repeats black-box tests on a machine that is busy, and lists those that failed at times.
#
# Usage: scripts/flakes.sh [-n TIMES] [-l LOAD] SUITE[:FILTER]...
#   -n TIMES  how often each suite is run, 10 by default
#   -l LOAD   processes that do nothing but take processor time meanwhile, twice the cores by default
#   SUITE     a target of tests/Cargo.toml, such as edge or edge:reliable; all of FILTER's tests in it are run
#
# What failed is kept in build/flakes/: the output of each run that did, and `failed` with a line for each test.
set -euo pipefail
cd "$(dirname "$0")/.."

times=10
load=$((2 * $(nproc)))
while getopts n:l: option; do
    case $option in
    n) times=$OPTARG ;;
    l) load=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || {
    echo "usage: scripts/flakes.sh [-n TIMES] [-l LOAD] SUITE[:FILTER]..." >&2
    exit 2
}

out=build/flakes
rm -rf "$out"
mkdir -p "$out"
busy=()
end() {
    # An array of none is one of an empty text to kill.
    [ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null || true
}
trap end EXIT

for suite in "$@"; do
    cargo test --locked --quiet --test "${suite%%:*}" --no-run
done
for ((at = 0; at < load; at++)); do
    # Ends by itself when this script was killed and could not end it.
    (while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 100000; i++)); do :; done; done) &
    busy+=($!)
done

runs=0
for ((time = 1; time <= times; time++)); do
    for suite in "$@"; do
        name=${suite%%:*}
        filter=
        [ "$name" = "$suite" ] || filter=${suite#*:}
        log=$out/$name-$time.log
        runs=$((runs + 1))
        # shellcheck disable=SC2086 # no filter is no argument
        if cargo test --locked --quiet --test "$name" -- $filter >"$log" 2>&1; then
            rm "$log"
            continue
        fi
        # The list of names at the end, and what a case of a table says of itself.
        {
            sed -n '/^failures:$/,$ { s/^    \([a-z0-9_:]*\)$/\1/p }' "$log"
            sed -n 's/^[A-Za-z]* \([a-z0-9_]*\): FAILED .*/case \1/p' "$log"
        } | sort -u | sed "s/^/$name /" >>"$out/failed"
        echo "$name: run $time failed, see $log" >&2
    done
done

if [ -s "$out/failed" ]; then
    echo "$runs runs with $load busy processes; how often failed what:"
    sort "$out/failed" | uniq -c | sort -rn
    exit 1
fi
echo "$runs runs with $load busy processes, none failed"
