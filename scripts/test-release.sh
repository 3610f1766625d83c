#!/usr/bin/env bash
# Packs a release from build/ and tests it like a user: in a fresh Debian 12 without Rust.
#
# debootstrap creates the Debian once (170 MB, a minute) below FERMATA_CACHE. Each run uses a temporary overlay above it. This needs
# root, debootstrap and a Debian archive. Without them only packing is tested, and in CI that is a failure.
#
#   DIST=FOLDER scripts/test-release.sh   tests the packages in FOLDER instead of packing build/ again
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
# Time limit for a loaded machine with a slow archive. The goal on an idle machine is 60 s.
seconds_max=600
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
debian=$cache/bookworm
# shellcheck source=scripts/report.sh
. scripts/report.sh
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
work=$(mktemp -d /var/tmp/fermata-release-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}
skip() {
    echo "the packages were NOT INSTALLED: $*"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
    finish
}

dist=${DIST:-}
if [ -z "$dist" ]; then
    dist=$work/dist
    core=${CARGO_TARGET_DIR:-$root/target}/release/libfermata_ffi.a
    [ -f "$core" ] && [ -f build/fermata ] || { echo "$core or build/fermata not found; run make first" >&2; exit 1; }
    packs() {
        FERMATA_CORE=$core FERMATA_BINARY=$root/build/fermata DIST=$dist scripts/release.sh --quick >"$work/log" 2>&1 ||
            { tail -n 20 "$work/log"; return 1; }
    }
    report "a release is packed" packs
    [ "$failed" = 0 ] || finish
    # Packing the same commit at another time in another folder must give identical files.
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) python3 scripts/release/pack.py --stage build/release --dist "$work/again" >/dev/null
    report "packed again, it has the same bytes" cmp "$dist/SHA256SUMS" "$work/again/SHA256SUMS"
fi
sums_fit() { (cd "$dist" && sha256sum --quiet --check SHA256SUMS); }
report "checksums" sums_fit
version=$(sed -n 's/^#define PHP_FERMATA_VERSION "\(.*\)"/\1/p' ext/php_fermata.h)
pie=$dist/php_fermata-${version}_php8.2-x86_64-linux-glibc.zip
# PIE requires this file name, and the library at the archive's root.
has_library() { python3 -c 'import sys, zipfile; sys.exit("fermata.so" not in zipfile.ZipFile(sys.argv[1]).namelist())' "$pie"; }
report "PIE's archive" has_library
# If no archive matches, PIE builds from source, which needs Rust.
names_cargo() {
    local tools=/usr/bin:/bin
    [ -z "$(PATH=$tools command -v cargo)" ] || { echo "Rust is in $tools; a machine without is NOT TESTED"; return; }
    cp -r ext "$work/source"
    ! (cd "$work/source" && export FERMATA_ROOT=$root PATH=$tools CARGO_HOME=$work/none CARGO='' FERMATA_CORE='' && phpize && ./configure) >"$work/log" 2>&1 &&
        grep -q 'error: cargo not found; install Rust from https://rustup.rs' "$work/log" || { tail -n 5 "$work/log"; return 1; }
}
report "a build without cargo says what is missing" names_cargo
names_old_cargo() {
    mkdir -p "$work/old"
    printf '#!/bin/sh\necho "cargo 1.63.0"\n' >"$work/old/cargo"
    chmod +x "$work/old/cargo"
    rm -rf "$work/source"
    cp -r ext "$work/source"
    ! (cd "$work/source" && export FERMATA_ROOT=$root CARGO=$work/old/cargo FERMATA_CORE='' && phpize && ./configure) >"$work/log" 2>&1 &&
        grep -q 'error: .*/cargo is of Rust 1.63.0, and Fermata needs 1.[0-9.]* or later; install it from https://rustup.rs or set CARGO' "$work/log" ||
        { tail -n 5 "$work/log"; return 1; }
}
report "a build with an old cargo says so" names_old_cargo
is_cyclonedx() {
    python3 - "$dist/sbom.cdx.json" <<'PYTHON'
import json, sys
bom = json.load(open(sys.argv[1]))
refs = {it["bom-ref"] for it in bom["components"]}
names = {it["name"] for it in bom["components"]}
assert bom["bomFormat"] == "CycloneDX" and {"rustls", "ring", "fermata-engine"} <= names
assert not {"proptest", "loom", "cbindgen"} & names, "what is not inside is named"
assert all(set(it["dependsOn"]) <= refs for it in bom["dependencies"])
assert all("licenses" in it for it in bom["components"])
PYTHON
}
report "SBOM" is_cyclonedx
if command -v lintian >/dev/null; then
    # Suppressed tags concern only packages in Debian's archive (closing a bug) and shared libraries, which PHP extensions are not.
    report "lintian" lintian --fail-on error --tag-display-limit 0 \
        --suppress-tags initial-upload-closes-no-bugs,embedded-library "$dist"/*_amd64.deb
else
    echo "lintian is not installed; skipped"
fi

[ "$(id -u)" = 0 ] || skip "this needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no mount and process namespaces"
mkdir -p "$cache"
why=$(debian_12 "$debian") || skip "$why"

mkdir "$work/upper" "$work/work" "$work/root"
mkdir "$work/upper/packages"
cp "$dist"/fermata_*_amd64.deb "$dist"/php8.2-fermata_*_amd64.deb "$work/upper/packages/"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/upper/packages/try" <<TRY
port=$port
TRY
cat >>"$work/upper/packages/try" <<'TRY'
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
traces() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /packages -o -path /etc/fermata-packages \) -prune -o -iname '*fermata*' -print | sort; }
result() { echo "$1" >>/packages/result; }
begin=$(date +%s.%N)
apt-get update -qq && apt-get install -qq -y --no-install-recommends php8.2-cli php8.2-opcache /packages/*.deb || exit
installed=$(date +%s.%N)
cd /tmp && fermata new api first >/dev/null || exit
fermata serve --listen "http://127.0.0.1:$port" first/server.php >/packages/server.log 2>&1 &
server=$!
answer=
for _ in $(seq 600); do
    answer=$(php -r 'echo @file_get_contents("http://127.0.0.1:'"$port"'/", context: stream_context_create(["http" => ["ignore_errors" => true]])) === false ? "" : $http_response_header[0];')
    [ -z "$answer" ] || break
    sleep 0.05
done
end=$(date +%s.%N)
kill "$server" && wait "$server"
result "answer: ${answer%% [0-9]*}"
result "stopped: $?"
awk -v a="$begin" -v b="$installed" -v c="$end" 'BEGIN { printf "seconds: %.1f to install, %.1f to the first answer, %.1f in all\n", b - a, c - b, c - a }' >>/packages/result
result "extension: $(php -r 'echo phpversion("fermata");')"
result "opcache: $(php -r 'echo extension_loaded("Zend OPcache") ? "there" : "missing";')"
result "manual: $(test -s /usr/share/man/man1/fermata.1.gz || [ -e /etc/dpkg/dpkg.cfg.d/docker ] && echo there)"
command -v cargo rustc cc && result "a compiler is there"
rm -rf /tmp/first
apt-get remove -qq -y php8.2-fermata fermata || exit
result "removed: $(php -m | grep -c fermata)"
apt-get install -qq -y --no-install-recommends /packages/*.deb || exit
result "installed again: $(php -m | grep -c fermata)"
apt-get purge -qq -y php8.2-fermata fermata || exit
result "left behind: $(traces | tr '\n' ' ')"
TRY
status=0
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
# shellcheck disable=SC2016 # for the inner shell
timeout "$seconds_max" unshare --mount --pid --fork --kill-child --propagation private bash -euc '
    work=$1 root=$1/root debian=$2 proxy=$3
    mount -t overlay overlay -o "lowerdir=$debian,upperdir=$work/upper,workdir=$work/work" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    # Not exec: the first process of a namespace inherits orphans, and a shell waits for them.
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ${proxy:+"http_proxy=$proxy"} bash /packages/try
    exit
' bash "$work" "$debian" "$proxy" </dev/null >"$work/log" 2>&1 || status=$?
result=$(cat "$work/upper/packages/result" 2>/dev/null || true)
has_line() { grep -qxF -- "$1" <<<"$result"; }
while read -r line; do
    report "in a fresh Debian 12, $line" has_line "$line"
done <<EXPECTED
answer: HTTP/1.1
stopped: 0
extension: $version
opcache: there
manual: there
removed: 0
installed again: 1
EXPECTED
report "in a fresh Debian 12, nothing is left behind" grep -qx 'left behind: *' <<<"$result"
report "in a fresh Debian 12, no compiler was there" bash -c '! grep -q compiler <<<"$1"' bash "$result"
grep '^seconds:' <<<"$result" || true
[ "$failed" = 0 ] || { echo "status $status"; tail -n 40 "$work/log"; printf '%s\n' "$result"; cat "$work/upper/packages/server.log"; }
finish
