# Sourced by scripts that try one thing after the other and count.
# shellcheck shell=bash

passed=0
failed=0
report() { # what, then a command that succeeds
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "$what: good"
    else
        failed=$((failed + 1))
        echo "$what: FAILED"
    fi
}
