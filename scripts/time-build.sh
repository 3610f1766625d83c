#!/usr/bin/env bash
# How long a build takes: seconds by the clock, and of the processor, which alone can be compared on a busy machine.
#
#   scripts/time-build.sh change   after a change of one line in crates/engine, with PROFILE, `quick` by default; this tree is built first
#   scripts/time-build.sh source   everything from nothing, as `make` does it, in a folder that is removed; crates are downloaded before
set -euo pipefail

cd "$(dirname "$0")/.."
count() { # what, command…
    local TIMEFORMAT='%R %U %S' what=$1 times
    shift
    times=$({ time "$@" >&2 2>&3; } 3>&2 2>&1 >/dev/null | tail -n 1)
    awk -v what="$what" '{ printf "%s: %.1f s, %.1f s of the processor\n", what, $1, $2 + $3 }' <<<"$times"
}
case ${1:-} in
    change)
        export PROFILE=${PROFILE:-quick}
        scripts/build-ext.sh >&2
        file=crates/engine/src/net/balance.rs
        before=$(mktemp)
        cp -p "$file" "$before"
        trap 'mv "$before" "$file"' EXIT
        # Machine code has to change with it; it is put back afterwards.
        sed -i 's/^\(const SLACK_DIVISOR: [a-z0-9]* = [0-9]*\);/\11;/' "$file"
        ! cmp -s "$file" "$before" || { echo "time-build: $file has no SLACK_DIVISOR to change" >&2; exit 1; }
        count "after a change in engine, PROFILE=$PROFILE" scripts/build-ext.sh
        ;;
    source)
        folder=$(mktemp -d /var/tmp/fermata-build-XXXXXX)
        trap 'rm -rf "$folder"' EXIT
        cargo fetch --locked >&2
        CARGO_TARGET_DIR=$folder/target BUILD=$folder/build count "from source" scripts/build-ext.sh
        ;;
    *) echo "usage: scripts/time-build.sh change|source" >&2 && exit 2 ;;
esac
