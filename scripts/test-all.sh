#!/usr/bin/env bash
# Runs every suite, also after one has failed, and says at the end which ones did.
# `make test-NAME` runs one of them alone.
#
# Many suites wait most of their time, for clients, clocks and browsers. What judges no times runs beside them, one after the other,
# with what they leave of the processor: what a machine makes once (a PHP compiled from its source, a Debian 13), the extension's
# tests under valgrind, which take as long as several suites together, what compiles for other machines, the extension's tests with
# other PHPs, and the half of the benchmark that counts faults. Results of these are printed at the end. A test of the extension that
# failed there may have been starved, so it has to pass alone; one with a report of valgrind's has not been.
#
# How often a loop goes round for a request depends on what else the machine does, so the one suite that counts system calls goes
# first, with nothing beside it.
#
# Seconds of the processor stand beside those of the clock: a suite that takes few of them waits, and on a busy machine they alone
# can be compared. What a suite starts and does not wait for is not in them.
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
cpu_all=0
begin=$(date +%s)

# count_cpu FILE COMMAND… writes into FILE how many seconds of the processor the command has taken. In a shell of its own, because
# the one that waits for other suites would count those, too.
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
    # What they say is said again by the suites that need them.
    nice -n 10 scripts/source-php.sh --php >"$build/test-prepare.log" 2>&1
    nice -n 10 scripts/other-php.sh 8.4 --run true >>"$build/test-prepare.log" 2>&1
    for suite in "${beside[@]}"; do
        begin=$SECONDS
        niceness=10
        # It has bounds for what it waits for.
        [ "$suite" != bench-loads ] || niceness=5
        count_cpu "$build/test-$suite.cpu" nice -n "$niceness" make --no-print-directory "test-$suite" >"$build/test-$suite.log" 2>&1
        echo "$? $((SECONDS - begin))" >"$build/test-$suite.status"
    done
}

run() {
    local suite=$1 verdict=FAILED
    printf '\n== %s (make test-%s)\n' "$suite" "$suite"
    SECONDS=0
    if count_cpu "$output.cpu" make --no-print-directory "test-$suite" 2>&1 | tee "$output"; then verdict=passed; fi
    count "$suite" "$verdict" "$SECONDS" "$output.cpu"
    mapfile -O "${#flaky[@]}" -t flaky < <(sed -n 's/^FLAKY: //p' "$output")
}

for suite in "${beside[@]}"; do rm -f "$build/test-$suite.status"; done
for suite in "${alone[@]}"; do run "$suite"; done
# A group of its own, so that all of it can be ended.
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
done
printf '\n== what each suite took: by the clock, of the processor\n'
printf '%s\n' "${times[@]}"
printf '%6d s           of waiting for those beside\n' "$waited"
printf '%6d s %6d s  in all, on %d cores\n' "$(($(date +%s) - begin))" "$cpu_all" "$(nproc)"
[ ${#flaky[@]} -eq 0 ] || printf 'flaky, failed beside other suites and passed alone: %s\n' "${flaky[@]}"
[ ${#failed[@]} -eq 0 ] || echo "failed suites: ${failed[*]}"
printf 'suites: %d passed, %d failed\n' "$passed" "${#failed[@]}"
[ ${#failed[@]} -eq 0 ]
