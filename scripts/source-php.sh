#!/usr/bin/env bash
# Builds a PHP with threads (ZTS) from source and runs the extension's tests with it.
#
#   scripts/source-php.sh [TEST…]              runs these .phpt tests; default: all
#   FERMATA_PHP_SOURCE=FOLDER … [TEST…]        uses the source in this folder (php-8.3.27 …) instead of Debian's source package
#   FERMATA_PHP_THREADS=no …                   builds a PHP without threads
#   FERMATA_PHP_LIBC=musl …                    builds a PHP without threads for musl, and the extension for it, by musl-gcc
#   scripts/source-php.sh --source             only prints the folder with the source
#   scripts/source-php.sh --php                only compiles the PHP if necessary, and prints its folder
#
# Debian packages no PHP with threads. Debian's PHP source (12 MB) is therefore compiled once, below FERMATA_CACHE (default
# ~/.cache/fermata), in three minutes on two cores. The tests use the Rust core that the host has built. If the source is not
# available, no test runs: the script prints the reason, and fails only in CI.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck disable=SC2034 # for release/targets.sh
profile=dev
# shellcheck source=scripts/release/targets.sh
. scripts/release/targets.sh
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
core=${CARGO_TARGET_DIR:-$root/target}/release/libfermata_ffi.a
threads=${FERMATA_PHP_THREADS:-yes}
libc=${FERMATA_PHP_LIBC:-}
[ -z "$libc" ] || threads=no
# Extensions that the tests use. Those that Debian has in separate packages are built as shared objects. scripts/setup.sh installs
# their libraries.
configuration=(--disable-all --enable-cli --enable-cgi --disable-phpdbg --enable-opcache --enable-session --enable-pcntl --enable-filter
    --with-openssl --with-libxml --with-zlib)
for module in posix sockets ctype tokenizer ftp pdo dom simplexml xml; do
    configuration+=("--enable-$module=shared")
done
configuration+=("--with-pdo-mysql=shared,mysqlnd" "--with-mysqli=shared,mysqlnd" --with-pdo-sqlite=shared --with-sqlite3=shared --with-curl=shared)
[ "$threads" = no ] || configuration+=(--enable-zts)
if [ "$libc" = musl ]; then
    # Omit extensions that need libraries, because Debian has those only for glibc.
    configuration=(--disable-all --enable-cli --disable-cgi --disable-phpdbg --without-valgrind --enable-opcache --enable-session
        --enable-pcntl --enable-filter)
    for module in posix sockets ctype tokenizer pdo; do configuration+=("--enable-$module=shared"); done
fi

say() { printf 'source-php: %s\n' "$*" >&2; }
cannot() {
    if [ -n "${CI:-}" ]; then
        say "NOT TESTED: $*"
        exit 1
    fi
    say "skipped, NOT TESTED: $*"
    exit 0
}

# Downloads the source of this Debian's PHP into FOLDER. Leaves apt's lists unchanged.
download() { # folder, package
    local release archive
    archive=$(debian_mirror)
    [ -n "$archive" ] || cannot "apt's configuration names no Debian archive; FERMATA_DEBIAN_MIRROR names one"
    echo "deb-src $archive $(debian_codename) main" >"$1/sources.list"
    release=(-o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$1/lists" -o APT::Sandbox::User=root)
    mkdir -p "$1/lists/partial"
    (cd "$1" && apt-get "${release[@]}" -qq update && apt-get "${release[@]}" -qq --download-only source "$2") >"$1/log" 2>&1 ||
        { tail -n 20 "$1/log" >&2; return 1; }
}

mkdir -p "$cache"
exec 9>"$cache/source-php.lock"
flock 9
if [ "$libc" = musl ]; then
    command -v musl-gcc >/dev/null || cannot "there is no musl-gcc (apt-get install musl-tools)"
    CC=$(musl_compiler "$cache")
    export CC
fi
source=${FERMATA_PHP_SOURCE:-}
if [ -z "$source" ]; then
    command -v apt-get >/dev/null || cannot "there is no apt-get; FERMATA_PHP_SOURCE names a folder with PHP's source"
    package=php$(php -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    sources=$cache/$package-source
    if [ ! -e "$sources/done" ]; then
        rm -rf "$sources"
        mkdir -p "$sources"
        download "$sources" "$package" || cannot "apt has no source of $package"
        mkdir "$sources/tree"
        tar -xf "$sources/$package"_*.orig.tar.xz -C "$sources/tree" --strip-components=1
        : >"$sources/done"
    fi
    source=$sources/tree
fi
[ -x "$source/configure" ] || { say "$source has no configure; FERMATA_PHP_SOURCE is to name a released source of PHP"; exit 2; }
if [ "${1:-}" = --source ]; then
    echo "$source"
    exit
fi
version=$(sed -n 's/^#define PHP_VERSION "\(.*\)"/\1/p' "$source/main/php_version.h")
name=php-$version-$([ "$threads" = no ] && echo nts || echo zts)${libc:+-$libc}
prefix=$cache/$name
if [ "$(cat "$prefix/configuration" 2>/dev/null)" != "${configuration[*]}" ]; then
    say "compiling $name in $prefix"
    rm -rf "$prefix" "$prefix-build"
    mkdir -p "$prefix-build"
    # Build outside the source folder, so that it stays unchanged. Use -O1, because this PHP only runs tests.
    (cd "$prefix-build" && CFLAGS=-O1 "$source/configure" --quiet --prefix="$prefix" "${configuration[@]}" && make --quiet -j"$(nproc)" &&
        make --quiet install) >"$prefix.log" 2>&1 || { tail -n 20 "$prefix.log" >&2; say "the whole log is $prefix.log"; exit 1; }
    rm -rf "$prefix-build"
    echo "${configuration[*]}" >"$prefix/configuration"
fi
if [ "${1:-}" = --php ]; then
    echo "$prefix"
    exit
fi
flock -s 9

build=$root/build/$name
mkdir -p "$build"
if [ "$libc" = musl ]; then
    missing=$(missing_for "$musl")
    [ -z "$missing" ] || cannot "$missing"
    compile "$musl" fermata-ffi >"$build/core.log" 2>&1 || { tail -n 30 "$build/core.log" >&2; exit 1; }
    core=$build/libfermata_ffi.a
    with_unwinder "$(built "$musl" libfermata_ffi.a)" "$core"
fi
[ -f "$core" ] || { say "$core not found; run make first"; exit 1; }
export PHP=$prefix/bin/php BUILD=$build
PHPIZE=$prefix/bin/phpize PHP_CONFIG=$prefix/bin/php-config FERMATA_CORE=$core scripts/build-ext.sh
refusal=
[ "$threads" = no ] || refusal=$("$prefix/bin/php-cgi" -n -d extension="$build/fermata.so" -v 2>&1) || true
if [ "$threads" != no ] && ! grep -q 'it works for the command line only' <<<"$refusal"; then
    say "the extension starts beside threads, or does not say why it does not"
    exit 1
fi
# Servers warn about each FERMATA_ variable that is not a setting.
unset "${!FERMATA_PHP_@}"
RUN_TESTS=$prefix/lib/php/build/run-tests.php FERMATA_EXTENSION=$build/fermata.so exec scripts/phpt.sh "$@"
