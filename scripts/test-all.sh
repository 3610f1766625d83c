#!/usr/bin/env bash
# Runs every suite, even after a failure, and lists the failed suites at the end. `make test-NAME` runs one suite.
#
# Many suites mainly wait for clients, timers and browsers. Suites that do not depend on timing run in the background at low
# priority, one after another:
#   - preparations that a machine needs once: a PHP compiled from source, a Debian 13
#   - the extension's tests under valgrind, which take as long as several suites
#   - cross-compiled targets, and the extension's tests with other PHPs
#   - the half of the benchmark that counts faults
# Their results are printed at the end. A failed extension test may have had too little processor time, so it runs again alone and
# must then pass. A report of valgrind always fails.
#
# The number of loop iterations per request depends on other load, so the suite that counts system calls runs first and alone.
#
# Each result has elapsed and processor seconds. Elapsed time far above processor time means that the suite waits. On a busy
# machine only processor seconds are comparable. They exclude processes that a suite starts and does not wait for.
set -uo pipefail

cd "$(dirname "$0")/.." || exit
alone=(counts)
suites=(scripts generated rust loom phpt systemd release monitoring revolt bench-tables server io chat php editor frameworks frameworks-newer requests docs browser)
beside=(leak targets php84 zts versions bench-loads)
build=${BUILD:-build}
output=$build/test-suite.log
passed=0
failed=()
flaky=()
times=()
skipped=()
cpu_all=0
# One line per flaky test and run on this machine. A test that was flaky in three runs fails the whole run.
flaky_counts=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}/flaky
readonly FLAKY_RUNS_MAX=2
# Number of lines of a failed suite's output that the end of the run repeats.
readonly FAILED_LINES=25
begin=$(date +%s)

# Maximum duration of a suite in seconds. A suite takes up to ten minutes, and a background suite up to 30. A suite that exceeds the
# limit fails, and the others still run.
readonly SUITE_S_MAX=2400
make_suite=(timeout --foreground --kill-after=30 "$SUITE_S_MAX" make --no-print-directory)

# count_cpu FILE COMMAND… writes the processor seconds of COMMAND to FILE. It uses a subshell: the main shell's figure would
# include the other suites that it waits for.
count_cpu() (
    TIMEFORMAT='%U %S'
    file=$1
    shift
    { time "$@" 2>&3; } 3>&2 2>"$file"
)
# count NAME VERDICT SECONDS FILE [NOTE]
count() {
    local cpu
    cpu=$(awk '{ printf "%d", $1 + $2 + 0.5 }' "$4")
    cpu_all=$((cpu_all + cpu))
    if [ "$2" = passed ]; then passed=$((passed + 1)); else failed+=("$1"); fi
    times+=("$(printf '%6d s %6d s  %s %s%s' "$3" "$cpu" "$1" "$2" "${5:-}")")
    printf -- '-- %s %s in %d s, %d s of the processor%s\n' "$1" "$2" "$3" "$cpu" "${5:-}"
}
run_beside() {
    local suite begin niceness
    # Ignore failures here, because the suites that need these folders report them.
    nice -n 10 scripts/source-php.sh --php >"$build/test-prepare.log" 2>&1
    nice -n 10 scripts/other-php.sh 8.4 --run true >>"$build/test-prepare.log" 2>&1
    for suite in "${beside[@]}"; do
        begin=$SECONDS
        niceness=10
        # This suite has time limits, so give it a higher priority than the others.
        [ "$suite" != bench-loads ] || niceness=5
        count_cpu "$build/test-$suite.cpu" nice -n "$niceness" "${make_suite[@]}" "test-$suite" >"$build/test-$suite.log" 2>&1
        echo "$? $((SECONDS - begin))" >"$build/test-$suite.status"
    done
}

# note_skipped SUITE LOG: records the tests that the suite's runners and scripts report as skipped.
note_skipped() {
    local phpt phpunit ignored line
    phpt=$(sed -nE 's/^.*, ([0-9]+) skipped.*/\1/p' "$2" | awk '{ n += $1 } END { print n + 0 }')
    phpunit=$(sed -nE 's/^.*Skipped: ([0-9]+).*/\1/p' "$2" | awk '{ n += $1 } END { print n + 0 }')
    ignored=$(sed -nE 's/^test result: .* ([0-9]+) ignored;.*/\1/p' "$2" | awk '{ n += $1 } END { print n + 0 }')
    [ $((phpt + phpunit + ignored)) = 0 ] || skipped+=("$1: $((phpt + phpunit + ignored)) tests")
    while read -r line; do skipped+=("$1: $line"); done < <(grep -E 'NOT RUN|SKIPPED:' "$2" | sort -u)
}

run() {
    local suite=$1 verdict=FAILED
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    SECONDS=0
    if count_cpu "$output.cpu" "${make_suite[@]}" "test-$suite" 2>&1 | tee "$output"; then verdict=passed; fi
    [ "$verdict" = passed ] || cp "$output" "$build/test-$suite.log"
    count "$suite" "$verdict" "$SECONDS" "$output.cpu"
    note_skipped "$suite" "$output"
    mapfile -O "${#flaky[@]}" -t flaky < <(sed -n 's/^FLAKY: //p' "$output")
}

for suite in "${beside[@]}"; do rm -f "$build/test-$suite.status"; done
for suite in "${alone[@]}"; do run "$suite"; done
# Use a separate process group, so that all background suites can be stopped.
set -m
run_beside &
others=$!
set +m
trap 'kill -- "-$others" 2>/dev/null' EXIT
for suite in "${suites[@]}"; do run "$suite"; done
SECONDS=0
wait "$others"
waited=$SECONDS
for suite in "${beside[@]}"; do
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    cat "$build/test-$suite.log"
    read -r status took <"$build/test-$suite.status"
    verdict=FAILED
    [ "$status" != 0 ] || verdict=passed
    work=
    case $suite in
        leak) work=$build/phpt-valgrind retry=(scripts/phpt.sh --valgrind) ;;
        php84) work=$build/php8.4/phpt retry=(scripts/other-php.sh 8.4) ;;
        zts) work=$(scripts/source-php.sh --php) && work=$build/${work##*/}/phpt retry=(scripts/source-php.sh) ;;
    esac
    if [ "$verdict" = FAILED ] && [ -s "$work/failed" ] && { [ "$suite" != leak ] || { [ -e "$work/reports" ] && [ ! -s "$work/reports" ]; }; }; then
        mapfile -t again <"$work/failed"
        printf -- '-- again, alone: %s\n' "${again[*]}"
        "${retry[@]}" "${again[@]}" && verdict=passed && flaky+=("${again[@]}")
    fi
    count "$suite" "$verdict" "$took" "$build/test-$suite.cpu" ', beside the others'
    note_skipped "$suite" "$build/test-$suite.log"
done
printf '\n== what each suite took: by the clock, of the processor\n'
printf '%s\n' "${times[@]}"
printf '%6d s           of waiting for those beside\n' "$waited"
printf '%6d s %6d s  in all, on %d cores\n' "$(($(date +%s) - begin))" "$cpu_all" "$(nproc)"
[ ${#skipped[@]} -eq 0 ] || { printf '\n== not run\n' && printf '%s\n' "${skipped[@]}"; }
mkdir -p "${flaky_counts%/*}"
for test in "${flaky[@]}"; do
    printf '%s\n' "$test" >>"$flaky_counts"
    runs=$(grep -cxF -- "$test" "$flaky_counts")
    printf 'flaky, failed beside other suites and passed alone: %s (%d of this machine'"'"'s runs)\n' "$test" "$runs"
    [ "$runs" -le $FLAKY_RUNS_MAX ] || failed+=("$test, flaky in $runs runs: mend it, then delete its lines in $flaky_counts")
done
# Repeat the end of each failed suite's output here: the last lines of a run are what its reader sees first.
for suite in "${failed[@]}"; do
    [ ! -e "$build/test-$suite.log" ] || { printf '\n== the end of %s\n' "$suite" && tail -n "$FAILED_LINES" "$build/test-$suite.log"; }
done
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
