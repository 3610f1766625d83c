#!/usr/bin/env bash
# Fuzzes each target for the given number of seconds; stops at the first finding.
set -euo pipefail

seconds=${1:-60}
cd "$(dirname "$0")/../fuzz"
for target in $(cargo +nightly fuzz list); do
    printf '== %s for %s s\n' "$target" "$seconds"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1
done
