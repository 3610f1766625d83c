#!/usr/bin/env bash
# Cross-compiles the command and runs it: the static x86-64 build in a folder that contains only the command, the ARM64 build under
# QEMU. Each build runs an edge that holds a client until an event is published.
#
# The test profile suffices: it also reveals features that a target lacks. The core library of the extensions is compiled for musl
# as well, linked into a shared library with this machine's musl, and called.
#
#   DIST=FOLDER scripts/test-targets.sh   runs the commands of the release in FOLDER without compiling
#
# If a tool is missing, no test runs; in CI that is a failure.
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
profile=dev
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
# shellcheck source=scripts/report.sh
. scripts/report.sh
# shellcheck source=scripts/release/targets.sh
. scripts/release/targets.sh
# Time limit of each step. Emulation and loaded machines are slow.
seconds_max=120
# Time limit of a server in seconds. A server is normally stopped earlier.
server_seconds_max=600
work=$(mktemp -d /var/tmp/fermata-targets-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
dist=${DIST:-}
version=$(sed -n 's/^#define PHP_FERMATA_VERSION "\(.*\)"/\1/p' ext/php_fermata.h)
skip() {
    echo "NOT RUN: $*"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
}
free_ports() {
    python3 -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for it in sockets: it.bind(("127.0.0.1", 0))
print(*(it.getsockname()[1] for it in sockets))'
}

# command_of TARGET NAME: copies the command to $work/NAME.
command_of() {
    if [ -n "$dist" ]; then
        tar -xzf "$dist/fermata-$version-linux-$2.tar.gz" -C "$work" --strip-components=1 --transform "s|/fermata\$|/$2|" \
            "fermata-$version-linux-$2/fermata"
    else
        compile "$1" fermata-cli >"$work/log" 2>&1 || { tail -n 30 "$work/log"; return 1; }
        cp "$(built "$1" fermata)" "$work/$2"
    fi
}

says_version() { [ "$(timeout "$seconds_max" "$@" --version)" = "fermata $version" ]; }
# `fermata doctor` fails because no PHP is installed here, but it must still report the kernel and the cores.
is_examined() {
    local said
    said=$(timeout "$seconds_max" "$@" doctor) || true
    if ! grep -q '^ok *kernel' <<<"$said" || ! grep -q "^ok *cores" <<<"$said"; then
        echo "$said"
        return 1
    fi
}
# Runs an edge with the built-in test origin: a held client receives a published event, and the edge stops cleanly.
serves() {
    local ports port control server client status=0 at
    ports=$(free_ports)
    port=${ports% *} control=${ports#* }
    timeout "$server_seconds_max" "$@" edge --listen "127.0.0.1:$port" --control "127.0.0.1:$control" --route '* test' >"$work/server.log" 2>&1 &
    server=$!
    for at in $(seq $((seconds_max * 10))); do
        ! curl -s -o /dev/null -m 5 "http://127.0.0.1:$port/" || break
        sleep 0.1
    done
    curl -sN -m "$seconds_max" "http://127.0.0.1:$port/stream?channel=room" >"$work/held" &
    client=$!
    # Publish repeatedly, because events that are published before the client is held reach no client.
    for at in $(seq "$seconds_max"); do
        timeout "$seconds_max" "$@" publish --spec "http://127.0.0.1:$control" room "hello from $at" >/dev/null || status=1
        ! grep -q '^hello from' "$work/held" || break
        sleep 0.5
    done
    grep -q '^hello from' "$work/held" || status=2
    kill "$client" 2>/dev/null || true
    wait "$client" 2>/dev/null || true
    kill "$server"
    wait "$server" || status=3
    [ "$status" = 0 ] || { echo "status $status"; cat "$work/held" "$work/server.log"; return 1; }
}
asks_for_nothing() { # a command
    ! objdump -p "$1" | grep -q NEEDED && ! readelf -l "$1" | grep -q INTERP
}

missing=
[ -n "$dist" ] || missing=$(missing_for "$musl")
[ "$(id -u)" = 0 ] || missing="this needs root, for chroot"
if [ -n "$missing" ]; then
    skip "the command without a C library: $missing"
else
    report "the command without a C library is there" command_of "$musl" x86_64-musl
    report "it asks for no library" asks_for_nothing "$work/x86_64-musl"
    mkdir "$work/empty"
    cp "$work/x86_64-musl" "$work/empty/fermata"
    alone=(chroot "$work/empty" /fermata)
    report "alone in a folder it says its version" says_version "${alone[@]}"
    report "alone in a folder it examines the machine" is_examined "${alone[@]}"
    report "alone in a folder it serves" serves "${alone[@]}"
    if [ -z "$dist" ]; then
        # musl's loader and library come from Debian and are older than those of rustup's target.
        is_linked() {
            local functions flags=() it self
            compile "$musl" fermata-ffi >"$work/log" 2>&1 || { tail -n 30 "$work/log"; return 1; }
            mapfile -t functions < <(grep -o '\bfm_[a-z0-9_]*(' ext/fermata_core.h | tr -d '(' | sort -u)
            for it in "${functions[@]}"; do flags+=("-Wl,-u,$it"); done
            # Path of the stack unwinder. Alpine's PHP loads the unwinder from libgcc, which Debian has only for glibc.
            self=$(rustc --print sysroot)/lib/rustlib/$musl/lib/self-contained/libunwind.a
            musl-gcc -shared -fPIC -Wl,-z,defs "${flags[@]}" "$(built "$musl" libfermata_ffi.a)" "$self" -o "$work/core.so"
            printf '#include <stdio.h>\n#include "fermata_core.h"\n%s\n' \
                'int main(void) { struct FmStr it = fm_version(); return printf("%.*s\n", (int) it.len, it.ptr) < 0; }' >"$work/core.c"
            musl-gcc -Iext "$work/core.c" "$work/core.so" -o "$work/core"
            [ "$("$work/core")" = "$version" ]
        }
        report "the core of the extension is linked with $(dpkg-query -W -f '${Package} ${Version}' musl 2>/dev/null || echo musl), and answers" is_linked
    fi
fi

missing=
[ -n "$dist" ] || missing=$(missing_for "$arm64")
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || missing="there is no qemu-aarch64 (apt-get install qemu-user-static)"
[ -e /usr/aarch64-linux-gnu/lib ] || missing="there is no C library for it (apt-get install libc6-dev-arm64-cross)"
if [ -n "$missing" ]; then
    skip "the command for arm64: $missing"
else
    report "the command for arm64 is there" command_of "$arm64" arm64-glibc
    emulated=("$emulator" -L /usr/aarch64-linux-gnu "$work/arm64-glibc")
    report "emulated it says its version" says_version "${emulated[@]}"
    report "emulated it examines the machine" is_examined "${emulated[@]}"
    report "emulated it serves" serves "${emulated[@]}"
    # arm64-php.sh itself reports missing tools. In CI it fails if tools are missing.
    [ -n "$dist" ] || report "emulated, the extension for arm64 passes tests of its own" scripts/arm64-php.sh
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
