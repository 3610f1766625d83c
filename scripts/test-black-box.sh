#!/usr/bin/env bash
# Tests scripts/black-box.sh with a fake cargo that imitates the output of cargo and libtest.
set -euo pipefail

cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# $folder/one, two and three contain the number of failures left for each test. If $folder/aborts exists, a test binary also
# aborts without a list of failures.
cat >"$folder/cargo" <<'STANDIN'
#!/usr/bin/env bash
folder=$(dirname "$0")
count() { cat "$folder/$1" 2>/dev/null || echo 0; }
exact=
[[ " $* " != *" --exact "* ]] || exact=${*: -1}
failed=()
passed=0
for name in one two three; do
    [ -z "$exact" ] || [ "$exact" = "m::$name" ] || continue
    left=$(count "$name")
    if [ "$left" -gt 0 ]; then
        echo $((left - 1)) >"$folder/$name"
        failed+=("m::$name")
    else
        passed=$((passed + 1))
    fi
done
if [ ${#failed[@]} = 0 ]; then
    echo "test result: ok. $passed passed; 0 failed"
    [ ! -e "$folder/aborts" ] || { printf 'error: 1 target failed:\n    `-p x --test b`\n'; exit 101; }
    exit 0
fi
printf 'failures:\n'
printf '    %s\n' "${failed[@]}"
printf '\ntest result: FAILED. %s passed; %s failed\n' "$passed" "${#failed[@]}"
printf 'error: 1 target failed:\n    `-p x --test a`\n'
[ ! -e "$folder/aborts" ] || printf '    `-p x --test b`\n'
exit 101
STANDIN
chmod +x "$folder/cargo"
checks=0
check() { # description, expected status, expected flaky tests, expected runs alone, failures of one, two, three
    local status=0
    echo "$5" >"$folder/one"
    echo "$6" >"$folder/two"
    echo "$7" >"$folder/three"
    scripts/black-box.sh "$folder/cargo" test --test a >"$folder/out" 2>&1 || status=$?
    local flaky runs
    flaky=$(grep -c '^FLAKY: ' "$folder/out" || true)
    runs=$(grep -c '^-- again, alone' "$folder/out" || true)
    if [ "$status $flaky $runs" != "$2 $3 $4" ]; then
        printf '%s: ended with %s, %s flaky, %s runs alone\n' "$1" "$status" "$flaky" "$runs"
        cat "$folder/out"
        exit 1
    fi
    checks=$((checks + 1))
}
check 'all pass' 0 0 0 0 0 0
check 'one fails once' 0 1 3 1 0 0
check 'two fail once' 0 2 6 1 1 0
check 'three fail once' 101 0 0 1 1 1
check 'one fails alone too' 1 0 1 2 0 0
check 'one fails always' 1 0 1 9 0 0
touch "$folder/aborts"
check 'a program crashed' 101 0 0 0 0 0
check 'a program crashed beside one that failed' 101 0 0 1 0 0
printf 'black-box.sh: %s checks passed\n' "$checks"
