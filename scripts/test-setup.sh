#!/usr/bin/env bash
# Tests setup.sh on a simulated machine: a PATH with few commands and fake apt-get, sudo and id that record their arguments.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
passed=0
failed=0

mkdir "$place/bin"
for program in bash sh env sed awk grep sort head cat tee rm mktemp sleep dirname printf touch; do
    ln -s "$(command -v "$program")" "$place/bin/$program"
done
fake() { # name, script
    printf '#!/bin/sh\n%s\n' "$2" >"$place/bin/$1"
    chmod +x "$place/bin/$1"
}
new_machine() { # user id
    rm -f "$place"/calls "$place/locked" "$place/bin/sudo" "$place/bin/cc"
    fake id "echo $1"
    fake apt-cache 'case $1 in policy) [ "$2" != cargo-web ] || echo "  Candidate: 1.90.0+dfsg" ;; esac'
    fake apt-get "echo \"apt-get \$*\" >>$place/calls
        if [ -e $place/locked ]; then rm $place/locked; echo 'E: Could not get lock /var/lib/apt/lists/lock.'; exit 100; fi"
}
setup() { # arguments; standard input is passed on
    status=0
    output=$(PATH=$place/bin CARGO_HOME=$place/none HOME=$place FERMATA_APT_PAUSE_S=0 \
        "$place/bin/bash" "$place/checkout/scripts/setup.sh" "$@" 2>&1) || status=$?
    calls=$(cat "$place/calls" 2>/dev/null || true)
}
check() { # what, then a command
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'setup: %s\nstatus %s\n%s\n-- calls\n%s\n' "$what" "$status" "$output" "$calls" >&2
    fi
}
has_line() { grep -qxF -- "$2" <<<"$1"; }
lacks() { ! grep -qF -- "$2" <<<"$1"; }

# Run a copy of setup.sh that does not look for installed software outside PATH.
mkdir -p "$place/checkout/scripts"
cp "$root/Cargo.toml" "$place/checkout/"
sed 's|^PATH=.*|PATH=$PATH|' "$root/scripts/setup.sh" >"$place/checkout/scripts/setup.sh"

install='apt-get install -y --no-install-recommends build-essential git php-cli php-dev cargo-web'

new_machine 0
cp -r "$place/checkout" "$place/a checkout"
status=0
output=$(PATH=$place/bin "$place/bin/bash" "$place/a checkout/scripts/setup.sh" build 2>&1 </dev/null) || status=$?
check "a path with a space is refused in one line" grep -q '^setup: the path of this checkout has a space: .*; move it' <<<"$output"
check "a path with a space fails" [ "$status" = 1 ]
rm -r "$place/a checkout"

new_machine 0
PHP=php9.9 setup build </dev/null
check "a PHP that apt lacks is refused in one line" has_line "$output" "setup: PHP=php9.9: it is not installed, and apt has no php9.9-cli; set PHP to one that is installed"
check "a PHP that apt lacks installs nothing" [ -z "$calls" ]
PHP=hphp setup build </dev/null
check "a PHP of another kind is refused" has_line "$output" "setup: PHP=hphp: there is no such program; set PHP to one that is installed"

new_machine 1000
setup build </dev/null
check "without root and sudo it prints the line" has_line "$output" "sudo apt-get update && sudo $install"
check "without root and sudo it installs nothing" [ -z "$calls" ]
check "without root and sudo it fails" [ "$status" != 0 ]

new_machine 1000
fake sudo 'case $1 in -n) exit 1 ;; esac; echo "sudo $*" >>'"$place"'/calls; exec "$@"'
setup build </dev/null
check "without a terminal nobody is asked for a password" lacks "$calls" sudo
check "without a terminal it prints the line" has_line "$output" "sudo apt-get update && sudo $install"

if command -v script >/dev/null; then
    new_machine 1000
    fake sudo 'case $1 in -n) exit 1 ;; esac; echo "sudo asks" >>'"$place"'/calls; exec "$@"'
    status=0
    output=$(PATH=$place/bin:$PATH script -qec \
        "env PATH=$place/bin CARGO_HOME=$place/none HOME=$place bash $place/checkout/scripts/setup.sh build" /dev/null 2>&1) || status=$?
    calls=$(cat "$place/calls")
    check "on a terminal sudo asks" has_line "$calls" "sudo asks"
    check "on a terminal it installs" grep -q 'apt-get .*install .*build-essential' <<<"$calls"
fi

new_machine 0
setup --dry-run build </dev/null
check "a dry run prints the line for root" has_line "$output" "apt-get update && $install"
check "a dry run calls no apt-get" [ -z "$calls" ]
check "a dry run succeeds" [ "$status" = 0 ]

new_machine 0
touch "$place/locked"
setup build </dev/null
check "it waits for another apt" grep -q 'another apt runs' <<<"$output"
check "it asks again after it has waited" [ "$(grep -c 'update' <<<"$calls")" = 2 ]
check "it has apt wait for dpkg" grep -q 'DPkg::Lock::Timeout=600 install' <<<"$calls"
check "it succeeds after it has waited" [ "$status" = 0 ]

# Files of Debian's packages that test scripts load, by the paths that setup.sh checks.
output='' calls='' status=0
loaded=$(
    cd "$root"
    grep -rhoE "(/usr/share/php/|require(_once)? ')[A-Z][A-Za-z0-9/]+/autoload\\.php" php/tests tests ext/tests examples bench/suites bench/peers |
        sed -E "s|^.*(php/\|')||" # what is left begins in /usr/share/php
    grep -rhoE "'(Bundle|Component)/[A-Za-z]+'" php/tests bench/suites bench/peers | sed -E "s|'(.*)'|Symfony/\\1/autoload.php|"
)
while read -r path; do
    # Dependencies of another package are installed with it.
    case $path in Slim/autoload.php | Symfony/Component/HttpClient/*) continue ;; esac
    check "it installs what has /usr/share/php/$path" grep -qF "/usr/share/php/$path" "$root/scripts/setup.sh"
done < <(sort -u <<<"$loaded")

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
