#!/usr/bin/env bash
# Runs every suite, also after one has failed, and says at the end which ones did.
# `make test-NAME` runs one of them alone.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
suites=(generated rust loom phpt server io chat docs browser bench leak)
passed=0
failed=()
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
echo
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
