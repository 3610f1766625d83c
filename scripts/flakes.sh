#!/usr/bin/env bash
# Repeats black-box tests under processor load, and lists tests that failed in some of the runs.
#
# Usage: scripts/flakes.sh [-n TIMES] [-l LOAD] SUITE[:FILTER]...
#   -n TIMES  number of runs of each suite; default 10
#   -l LOAD   number of processes that keep the processor busy; default twice the number of cores
#   SUITE     a target of tests/Cargo.toml, such as edge or edge:reliable; with FILTER only tests whose names contain it
#
# build/flakes/ receives the output of each failed run, and the file `failed` with one line per failed test.
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
    [ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null || true
}
trap end EXIT

for suite in "$@"; do
    cargo test --locked --quiet --test "${suite%%:*}" --no-run
done
for ((at = 0; at < load; at++)); do
    # The process exits by itself if this script was killed and could not stop it.
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
        # shellcheck disable=SC2086 # an empty $filter must expand to no argument
        if cargo test --locked --quiet --test "$name" -- $filter >"$log" 2>&1; then
            rm "$log"
            continue
        fi
        # Record the tests listed as failed, and the failed cases that table-driven tests print.
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
