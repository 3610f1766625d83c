#!/usr/bin/env bash
# Builds the extension for another PHP than the machine's and runs its tests there, in a Debian that lies in a folder.
#
#   scripts/other-php.sh 8.4|8.5 [TEST…]         the .phpt named; default: all of them
#   scripts/other-php.sh 8.4|8.5 --run COMMAND…  a command in that Debian, in this checkout
#
# 8.4 is that of Debian 13. 8.5 is that of Debian's experimental, which can be broken any day: nothing but a person asks for it.
#
# A folder is made once by debootstrap (700 MB, one to six minutes) below FERMATA_CACHE, which is ~/.cache/fermata by default.
# Only the extension's C is compiled in it: the Rust core is the one that this machine has built, and a library that was
# built with an older glibc is linked by a newer one. Root is needed, to mount and to change the root folder; what it mounts
# and starts lives in namespaces of its own and ends with it.
#
# Without root, debootstrap or a Debian archive there is nothing to test with: that is said, and fails only in CI.
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

# A changed list is installed into the folder that is there.
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

# inside FOLDER COMMAND… runs it with the folder as its root, and with this checkout at the same place.
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
        # An earlier run that was interrupted has left this, and its mounts have ended with it.
        rm -rf --one-file-system "$debian" "$debian.new"
        mkdir -p "$debian.new/etc/dpkg/dpkg.cfg.d"
        # It can be made again, so nothing has to be on the disk before it goes on, and nobody reads manuals there.
        printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
            'path-exclude=/usr/share/locale/*' >"$debian.new/etc/dpkg/dpkg.cfg.d/fermata"
        debootstrap --variant=minbase "$suite" "$debian.new" "$archive" >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            cannot "debootstrap has failed"
        }
        : >"$debian.new/etc/fermata-packages"
        if [ "$suite" = sid ]; then
            echo "deb $archive experimental main" >"$debian.new/etc/apt/sources.list.d/experimental.list"
            # A copy of the archive may be a few weeks behind. Its signatures are checked all the same.
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
# Others may use it at the same time, and nobody changes it meanwhile.
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
