#!/usr/bin/env bash
# Tests lookups.py: it reports silent look-ups and accepts all others.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
passed=0
failed=0

check() { # clean or found, description; standard input is the body of a function
    local expected=$1 what=$2 status=0 output
    { echo "fn f(map: &Map) {"; cat; echo "}"; } >"$place/it.rs"
    output=$(python3 "$root/scripts/lookups.py" "$place/it.rs" 2>&1) || status=$?
    if [ "$status" = "$([ "$expected" = clean ] && echo 0 || echo 1)" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'lookups: %s\nstatus %s\n%s\n' "$what" "$status" "$output" >&2
    fi
}

check found "it ends in silence" <<'END'
    let Some(at) = map.get(key) else {
        return;
    };
END
check found "it goes on in silence, over several lines" <<'END'
    let Some(at) = map
        .entries
        .get_mut(key)
        .and_then(Entry::socket)
    else {
        continue;
    };
END
check found "a value is no reason" <<'END'
    let Some((connection, exchange)) = net.connections.pair_mut(index) else {
        return false;
    };
END
check clean "a comment above it says why" <<'END'
    // It was closed since.
    let Some(at) = map.get(key) else {
        return;
    };
END
check clean "a comment inside says why" <<'END'
    let Some(at) = map.get(key) else {
        // It was closed since.
        return;
    };
END
check clean "it is asserted and counted" <<'END'
    let Some(at) = map.get(key) else {
        return missed(());
    };
END
check clean "its caller is told" <<'END'
    let Some(at) = map.get(key) else {
        return Err(Gone);
    };
END
check clean "a branch that does something is no silence" <<'END'
    let Some(at) = map.get(key) else {
        log.write("nothing is there");
        return;
    };
END
check clean "a setting is no look-up" <<'END'
    let Some(path) = &settings.access_log else {
        return;
    };
END
check clean "tests may be silent" <<'END'
}
#[cfg(test)]
mod tests {
    let Some(at) = map.get(key) else {
        return;
    };
END

echo "lookups: $passed passed, $failed failed"
[ "$failed" = 0 ]
