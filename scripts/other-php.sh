#!/usr/bin/env bash
# Builds the extension for a PHP version other than the host's, and runs its tests in a Debian root folder with that version.
#
#   scripts/other-php.sh 8.4|8.5 [TEST…]         runs these .phpt tests; default: all
#   scripts/other-php.sh 8.4|8.5 --run COMMAND…  runs a command in that Debian, in this checkout
#
# PHP 8.4 comes from Debian 13. PHP 8.5 comes from Debian experimental, which breaks at times, so no automatic suite uses it.
#
# debootstrap creates the folder once (700 MB, one to six minutes) below FERMATA_CACHE (default ~/.cache/fermata).
# Only the extension's C code is compiled in it. It links the Rust core that the host has built, which works because a newer
# glibc links libraries built with an older one. Mounting and changing the root folder need root. Mounts and processes live in
# separate namespaces and disappear with this script.
#
# Without root, debootstrap or a Debian archive no test runs: the script prints the reason, and fails only in CI.
set -euo pipefail

version=${1:-}
case $version in
    8.4) suite=trixie ;;
    8.5) suite=sid ;;
    *)
        echo "usage: scripts/other-php.sh 8.4|8.5 [TEST… | --run COMMAND…]" >&2
        exit 2
        ;;
esac
shift

# If this list changes, the new packages are installed into the existing folder.
packages=(gcc make libc6-dev procps curl openssl)
for module in cli dev curl mbstring mysql pgsql sqlite3; do
    packages+=("php$version-$module")
done
[ "$version" != 8.4 ] || packages+=(php8.4-opcache php8.4-redis php8.4-xdebug)

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/debian.sh
. "$root/scripts/debian.sh"
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
debian=$cache/$suite
log=$debian.log
build=$root/build/php$version
core=${CARGO_TARGET_DIR:-$root/target}/release/libfermata_ffi.a

say() { printf 'other-php: %s\n' "$*" >&2; }
cannot() {
    if [ -n "${CI:-}" ]; then
        say "NOT TESTED with PHP $version: $*"
        exit 1
    fi
    say "skipped, PHP $version was NOT TESTED: $*"
    exit 0
}

[ "$(id -u)" = 0 ] || cannot "this needs root"
command -v debootstrap >/dev/null || cannot "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || cannot "this machine allows no mount and process namespaces"

# inside FOLDER COMMAND… runs the command with FOLDER as its root folder. This checkout is mounted there at the same path.
inside() {
    local folder=$1 temporary status=0
    shift
    temporary=$(mktemp -d "${TMPDIR:-/tmp}/fermata-php-XXXXXX")
    chmod 1777 "$temporary"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --pid --fork --kill-child --propagation private bash -euc '
        folder=$1 checkout=$2 temporary=$3
        shift 3
        mount -t proc proc "$folder/proc"
        mount --rbind /dev "$folder/dev"
        mount --rbind /sys "$folder/sys"
        mount --bind "$temporary" "$folder/tmp"
        # Names are looked up as on this machine.
        cp /etc/resolv.conf /etc/hosts "$folder/etc/"
        mkdir -p "$folder$checkout"
        mount --bind "$checkout" "$folder$checkout"
        # Not exec: the first process of a namespace inherits orphans, and a shell waits for them.
        chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            ${http_proxy:+"http_proxy=$http_proxy"} "$@"
        exit
    ' bash "$folder" "$root" "$temporary" "$@" </dev/null || status=$?
    rm -rf "$temporary"
    return "$status"
}

make_debian() {
    local archive proxy=
    archive=$(debian_mirror)
    [ -n "$archive" ] || cannot "apt's configuration names no Debian archive; FERMATA_DEBIAN_MIRROR names one"
    if command -v apt-config >/dev/null; then
        eval "$(apt-config shell proxy Acquire::http::Proxy)"
        [ -z "$proxy" ] || export http_proxy=$proxy
    fi
    if [ ! -e "$debian/etc/fermata-packages" ]; then
        say "making a Debian $suite in $debian"
        # Remove the remains of an interrupted run. Its mounts disappeared with its namespace.
        rm -rf --one-file-system "$debian" "$debian.new"
        mkdir -p "$debian.new/etc/dpkg/dpkg.cfg.d"
        # Skip fsync and documentation, because the folder can be created again and no user reads manuals there.
        printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
            'path-exclude=/usr/share/locale/*' >"$debian.new/etc/dpkg/dpkg.cfg.d/fermata"
        debootstrap --variant=minbase "$suite" "$debian.new" "$archive" >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            cannot "debootstrap has failed"
        }
        : >"$debian.new/etc/fermata-packages"
        if [ "$suite" = sid ]; then
            echo "deb $archive experimental main" >"$debian.new/etc/apt/sources.list.d/experimental.list"
            # A mirror may be a few weeks old, so expired release files are accepted. Signatures are still checked.
            echo 'Acquire::Check-Valid-Until "false";' >"$debian.new/etc/apt/apt.conf.d/fermata"
        fi
        mv "$debian.new" "$debian"
    fi
    say "installing PHP $version in $debian"
    inside "$debian" sh -ec 'dpkg --configure -a; apt-get update -qq; apt-get install -qq -y --no-install-recommends "$@"; apt-get clean' \
        sh "${packages[@]}" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        cannot "apt has failed in $debian"
    }
    echo "${packages[*]}" >"$debian/etc/fermata-packages"
}

mkdir -p "$cache"
exec 9>"$debian.lock"
flock 9
[ "$(cat "$debian/etc/fermata-packages" 2>/dev/null)" = "${packages[*]}" ] || make_debian
# Take a shared lock. Several runs may use the folder at the same time, but none of them may change it.
flock -s 9

if [ "${1:-}" = --run ]; then
    shift
    # shellcheck disable=SC2016 # for the inner shell
    inside "$debian" sh -c 'cd "$1" && shift && exec "$@"' sh "$root" "$@"
    exit
fi

if [ ! -f "$core" ]; then
    echo "other-php: $core not found; run make first" >&2
    exit 1
fi
mkdir -p "$build"
cmp -s "$core" "$build/libfermata_ffi.a" || cp "$core" "$build/libfermata_ffi.a"
# shellcheck disable=SC2016 # for the inner shell
inside "$debian" env PHP="php$version" BUILD="$build" FERMATA_CORE="$build/libfermata_ffi.a" FERMATA_EXTENSION="$build/fermata.so" \
    CI="${CI:-}" sh -ec 'cd "$1"; shift; scripts/build-ext.sh; exec scripts/phpt.sh "$@"' sh "$root" "$@"
