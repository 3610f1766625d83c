# Sourced by scripts that run several checks and count the results.
# shellcheck shell=bash

passed=0
failed=0
report() { # description, then a command that must succeed
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
