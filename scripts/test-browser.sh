#!/usr/bin/env bash
# The chat page in Chromium: installs the test's packages when the lock file changed, then runs the tests.
set -euo pipefail

cd "$(dirname "$0")/../tests/browser"
installed=node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ]; then
    npm ci --no-audit --no-fund --loglevel=error
    touch "$installed"
fi
# One file at a time: each starts its own servers and browser, and two cores hold no more.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
node --test --test-concurrency=1 "$@" 2>&1 | tee "$log" || status=$?
[ "$status" != 0 ] || exit 0

# As in scripts/black-box.sh: one file that failed beside the suite under valgrind has to pass alone several times, and is named.
readonly RUNS_ALONE=3
mapfile -t failed < <(sed -n "s/^ *location: '\(.*\.test\.js\):[0-9]*:[0-9]*'$/\1/p" "$log" | sort -u)
[ ${#failed[@]} = 1 ] || exit "$status"
for run in $(seq $RUNS_ALONE); do
    printf -- '-- again, alone, %d of %d: %s\n' "$run" $RUNS_ALONE "${failed[0]}"
    node --test --test-concurrency=1 "${failed[0]}"
done
printf 'FLAKY: %s\n' "${failed[0]}"
