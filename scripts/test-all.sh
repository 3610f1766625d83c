#!/usr/bin/env bash
# Runs every suite, also after one has failed, and says at the end which ones did.
# `make test-NAME` runs one of them alone.
#
# The suite under valgrind takes as long as several others together. It judges no times, so it goes on beside them with
# what they leave of the processor, and is told of at the end.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
suites=(generated rust loom phpt revolt server io chat php docs browser bench)
passed=0
failed=()
begin=$(date +%s)
log=${BUILD:-build}/test-leak.log
nice -n 19 make --no-print-directory test-leak >"$log" 2>&1 &
leak=$!
trap 'kill "$leak" 2>/dev/null' EXIT
for suite in "${suites[@]}"; do
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    SECONDS=0
    if make --no-print-directory "test-$suite"; then
        passed=$((passed + 1))
        printf -- '-- %s passed in %d s\n' "$suite" "$SECONDS"
    else
        failed+=("$suite")
        printf -- '-- %s FAILED in %d s\n' "$suite" "$SECONDS"
    fi
done
printf '\n== leak (make test-leak)\n'
SECONDS=0
if wait "$leak"; then
    passed=$((passed + 1))
    verdict=passed
else
    failed+=(leak)
    verdict=FAILED
fi
cat "$log"
printf -- '-- leak %s, %d s after the others\n' "$verdict" "$SECONDS"
printf '\nall in %d s\n' "$(($(date +%s) - begin))"
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
