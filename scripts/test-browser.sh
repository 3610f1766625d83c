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
exec node --test --test-concurrency=1 "$@"
