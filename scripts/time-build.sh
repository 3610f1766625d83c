#!/usr/bin/env bash
# Measures the elapsed and processor seconds of a build. On a busy machine only processor seconds are comparable.
#
#   scripts/time-build.sh change   builds once, changes one line in crates/engine, and measures a build with PROFILE (default quick)
#   scripts/time-build.sh source   downloads all crates, then measures a complete build, as by `make`, in a temporary folder
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
        # The change must affect machine code. The file is restored afterwards.
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
