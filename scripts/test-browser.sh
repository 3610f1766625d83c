#!/usr/bin/env bash
# Tests the chat page in Chromium. Installs the tests' npm packages first if the lock file has changed.
set -euo pipefail

cd "$(dirname "$0")/../tests/browser"
installed=node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ package-lock.json -nt "$installed" ]; then
    npm ci --no-audit --no-fund --loglevel=error
    touch "$installed"
fi
# Run one file at a time, because each file starts servers and a browser, which keep two cores busy.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
node --test --test-concurrency=1 "$@" 2>&1 | tee "$log" || status=$?
[ "$status" != 0 ] || exit 0

# Number of repetitions of a single failed file, which runs again alone as in scripts/black-box.sh. If every repetition passes, the
# file is reported as flaky.
readonly RUNS_ALONE=3
mapfile -t failed < <(sed -n "s/^ *location: '\(.*\.test\.js\):[0-9]*:[0-9]*'$/\1/p" "$log" | sort -u)
[ ${#failed[@]} = 1 ] || exit "$status"
for run in $(seq $RUNS_ALONE); do
    printf -- '-- again, alone, %d of %d: %s\n' "$run" $RUNS_ALONE "${failed[0]}"
    node --test --test-concurrency=1 "${failed[0]}"
done
printf 'FLAKY: %s\n' "${failed[0]}"
