#!/usr/bin/env bash
# Builds the extension for arm64 and runs the extension's tests with Debian's PHP for arm64, emulated by QEMU.
#
#   scripts/arm64-php.sh [TEST…]    runs these .phpt tests; default: the selection below
#   scripts/arm64-php.sh --all      runs all .phpt tests
#   scripts/arm64-php.sh --root     only prints the folder with PHP for arm64
#   FERMATA_CORE=FILE …             links this core; default: compiles one in the test profile, as `make test-targets` does
#
# PHP and its dependencies are unpacked, not installed, below FERMATA_CACHE (default ~/.cache/fermata; 130 MB, under a minute). QEMU
# finds the files there, so neither root nor a chroot is needed. The host's own PHP runs the test driver run-tests.php.
#
# QEMU does not emulate io_uring, so FERMATA_IO is epoll. QEMU reports a process's start time differently to that process and to
# others. A shared table then treats each lock owner as dead, so table_shared and table_forked cannot pass.
# If a tool is missing, no test runs; in CI that is a failure.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# shellcheck disable=SC2034 # for release/targets.sh
profile=dev
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=scripts/release/targets.sh
. scripts/release/targets.sh
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
version=8.2
debian=$cache/php$version-arm64
build=$root/build/php$version-arm64
packages=()
for module in cli curl mbstring mysql pgsql sqlite3; do packages+=("php$version-$module"); done
# A few tests of each part of the extension. They are enough to show that the extension was compiled correctly for arm64.
some=(module settings random request_query uploads response_stream hold channel_publish_text exit fatal_error time_limit memory_limit tls
    hooks_processes hooks_sockets hooks_sqlite pool jobs waiting_tasks websocket_echo websocket_compression)

say() { printf 'arm64-php: %s\n' "$*" >&2; }
cannot() {
    say "NOT TESTED with PHP for arm64: $*"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}

# Unpacks the packages and their dependencies. Leaves apt's lists and the installed packages unchanged.
unpack() { # folder
    local archive apt archives
    archive=$(debian_mirror)
    [ -n "$archive" ] || cannot "apt's configuration names no Debian archive; FERMATA_DEBIAN_MIRROR names one"
    apt=$1/apt archives=$1/apt/cache/archives
    mkdir -p "$apt/lists/partial" "$archives/partial"
    : >"$apt/status"
    echo "deb $archive $(debian_codename) main" >"$apt/sources.list"
    local options=(-qq -y -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Install-Recommends=false
        -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists"
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update &&
        apt-get "${options[@]}" --download-only install "${packages[@]}" &&
        # Unpack only the headers and scripts of the development package: the host's cross compiler is used.
        (cd "$archives" && apt-get "${options[@]}" download "php$version-dev") || return
    for package in "$archives"/*.deb; do dpkg-deb -x "$package" "$1" || return; done
    rm -rf "$apt"
}

mkdir -p "$cache"
exec 9>"$debian.lock"
flock 9
if [ "$(cat "$debian/packages" 2>/dev/null)" != "${packages[*]}" ]; then
    command -v apt-get >/dev/null || cannot "there is no apt-get"
    say "unpacking PHP $version for arm64 in $debian"
    rm -rf "$debian" "$debian.new"
    mkdir -p "$debian.new"
    unpack "$debian.new" >"$debian.log" 2>&1 || { tail -n 20 "$debian.log" >&2; cannot "apt has failed"; }
    echo "${packages[*]}" >"$debian.new/packages"
    mv "$debian.new" "$debian"
fi
if [ "${1:-}" = --root ]; then
    echo "$debian"
    exit
fi
flock -s 9

missing=$(missing_for "$arm64")
[ -z "$missing" ] || cannot "$missing"
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || cannot "there is no qemu-aarch64 (apt-get install qemu-user-static)"
mkdir -p "$build"
if [ -z "${FERMATA_CORE:-}" ]; then
    compile "$arm64" fermata-ffi >"$build/core.log" 2>&1 || { tail -n 30 "$build/core.log" >&2; exit 1; }
    FERMATA_CORE=$(built "$arm64" libfermata_ffi.a)
    export FERMATA_CORE
fi
tools_of_root "$debian" "$version" "$build/tools"
cat >"$build/php" <<WRAPPER
#!/bin/sh
exec "$emulator" -L "$debian" "$debian/usr/bin/php$version" "\$@"
WRAPPER
chmod +x "$build/php"
PHPIZE=$build/tools/phpize PHP_CONFIG=$build/tools/php-config CC=aarch64-linux-gnu-gcc CONFIGURE_ARGUMENTS=--host=aarch64-linux-gnu \
    BUILD=$build scripts/build-ext.sh

case ${1:-} in
    --all) tests=() ;;
    '') tests=("${some[@]}") ;;
    *) tests=("$@") ;;
esac
# An emulated PHP is ten times slower. So time limits of seconds become minutes, and slow workers are neither killed nor reported.
export FERMATA_PHPT_WAIT_S=240 FERMATA_DRAIN_TIMEOUT_MS=60000 FERMATA_STALL_TIMEOUT_MS=0 FERMATA_BLOCKING_CALL_MS=60000 FERMATA_IO=epoll
FERMATA_EXTENSION=$build/fermata.so FERMATA_PHPT_PHP=$build/php BUILD=$build exec scripts/phpt.sh "${tests[@]}"
