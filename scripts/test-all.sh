#!/usr/bin/env bash
# Runs every suite, also after one has failed, and says at the end which ones did.
# `make test-NAME` runs one of them alone.
#
# The suite under valgrind takes as long as several others together. It judges no times, so it runs beside them with what
# they leave of the processor, and its result is printed at the end. A test that failed there without a report of
# valgrind's may have been starved, so it has to pass alone.
#
# Seconds of the processor stand beside those of the clock: a suite that takes few of them waits, and on a busy machine they alone
# can be compared. What a suite starts and does not wait for is not in them.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
suites=(scripts generated rust loom phpt php84 zts versions systemd release targets monitoring revolt server io chat php editor frameworks requests docs browser bench)
passed=0
failed=()
flaky=()
times=()
cpu_all=0
output=${BUILD:-build}/test-suite.log
processor=${BUILD:-build}/test-suite.cpu
begin=$(date +%s)
# count_cpu FILE COMMAND… writes into FILE how many seconds of the processor the command has taken. In a shell of its own, because
# the one that waits for the suite under valgrind would count that, too.
count_cpu() (
    TIMEFORMAT='%U %S'
    file=$1
    shift
    { time "$@" 2>&3; } 3>&2 2>"$file"
)
cpu_of() { awk '{ printf "%d", $1 + $2 + 0.5 }' "$1"; }
log=${BUILD:-build}/test-leak.log
count_cpu "$log.cpu" nice -n 10 make --no-print-directory test-leak >"$log" 2>&1 &
leak=$!
# The shell that counts, and what it waits for.
trap 'pkill -P "$leak"; kill "$leak" 2>/dev/null' EXIT
for suite in "${suites[@]}"; do
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    SECONDS=0
    if count_cpu "$processor" make --no-print-directory "test-$suite" 2>&1 | tee "$output"; then
        passed=$((passed + 1))
        verdict=passed
    else
        failed+=("$suite")
        verdict=FAILED
    fi
    took=$SECONDS
    cpu=$(cpu_of "$processor")
    cpu_all=$((cpu_all + cpu))
    times+=("$(printf '%6d s %6d s  %s %s' "$took" "$cpu" "$suite" "$verdict")")
    printf -- '-- %s %s in %d s, %d s of the processor\n' "$suite" "$verdict" "$took" "$cpu"
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
cpu=$(cpu_of "$log.cpu")
cpu_all=$((cpu_all + cpu))
times+=("$(printf '%6d s %6d s  leak %s, after the others' "$SECONDS" "$cpu" "$verdict")")
printf '\n== what each suite took: by the clock, of the processor\n'
printf '%s\n' "${times[@]}"
printf '%6d s %6d s  in all, on %d cores\n' "$(($(date +%s) - begin))" "$cpu_all" "$(nproc)"
[ ${#flaky[@]} -eq 0 ] || printf 'flaky, failed beside other suites and passed alone: %s\n' "${flaky[@]}"
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
