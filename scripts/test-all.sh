#!/usr/bin/env bash
# Runs every suite, also after one has failed, and says at the end which ones did.
# `make test-NAME` runs one of them alone.
#
# The suite under valgrind takes as long as several others together. It judges no times, so it runs beside them with what
# they leave of the processor, and its result is printed at the end. A test that failed there without a report of
# valgrind's may have been starved, so it has to pass alone.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
suites=(scripts generated rust loom phpt php84 zts versions systemd release targets monitoring revolt server io chat php editor frameworks requests docs browser bench)
passed=0
failed=()
flaky=()
times=()
output=${BUILD:-build}/test-suite.log
begin=$(date +%s)
log=${BUILD:-build}/test-leak.log
nice -n 10 make --no-print-directory test-leak >"$log" 2>&1 &
leak=$!
trap 'kill "$leak" 2>/dev/null' EXIT
for suite in "${suites[@]}"; do
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    SECONDS=0
    if make --no-print-directory "test-$suite" 2>&1 | tee "$output"; then
        passed=$((passed + 1))
        verdict=passed
    else
        failed+=("$suite")
        verdict=FAILED
    fi
    took=$SECONDS
    times+=("$(printf '%6d s  %s %s' "$took" "$suite" "$verdict")")
    printf -- '-- %s %s in %d s\n' "$suite" "$verdict" "$took"
    mapfile -O "${#flaky[@]}" -t flaky < <(sed -n 's/^FLAKY: //p' "$output")
done
printf '\n== leak (make test-leak)\n'
SECONDS=0
verdict=FAILED
wait "$leak" && verdict=passed
cat "$log"
work=${BUILD:-build}/phpt-valgrind
if [ "$verdict" = FAILED ] && [ -s "$work/failed" ] && [ -e "$work/reports" ] && [ ! -s "$work/reports" ]; then
    mapfile -t again <"$work/failed"
    printf -- '-- again, alone: %s\n' "${again[*]}"
    scripts/phpt.sh --valgrind "${again[@]}" && verdict=passed
fi
if [ "$verdict" = passed ]; then
    passed=$((passed + 1))
else
    failed+=(leak)
fi
printf -- '-- leak %s, %d s after the others\n' "$verdict" "$SECONDS"
times+=("$(printf '%6d s  leak %s, after the others' "$SECONDS" "$verdict")")
printf '\n== what each suite took\n'
printf '%s\n' "${times[@]}"
printf '%6d s  in all\n' "$(($(date +%s) - begin))"
[ ${#flaky[@]} -eq 0 ] || printf 'flaky, failed beside other suites and passed alone: %s\n' "${flaky[@]}"
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
