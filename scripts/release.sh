#!/usr/bin/env bash
# Builds all artefacts of a release into dist/.
#
#   scripts/release.sh [--quick]
#
# The Rust core is compiled once per target. For each PHP, only the C code of ext/ is compiled. Everything links the host's glibc,
# even for the PHP of a newer Debian, so no artefact needs a newer glibc than the host's.
#
# Other targets, listed in release/targets.sh, are built if their tools are installed; missing ones are reported.
# PHPs: the host's; those of scripts/other-php.sh, scripts/source-php.sh and scripts/arm64-php.sh; and each php-config in
# FERMATA_PHP_CONFIGS.
#
#   --quick                       builds only for the host's target and PHP
#   FERMATA_CORE, FERMATA_BINARY  uses this libfermata_ffi.a and this command for x86_64 glibc instead of compiling them
#   DIST=FOLDER                   output folder instead of dist
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
quick=
case ${1:-} in
    '') ;;
    --quick) quick=yes ;;
    *) echo "usage: scripts/release.sh [--quick]" >&2 && exit 2 ;;
esac
dist=${DIST:-$root/dist}
stage=$root/build/release
# shellcheck source=scripts/release/targets.sh
. scripts/release/targets.sh
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
machine=$(uname -m)
[ "$machine" = x86_64 ] || { echo "release: this script knows how to release from x86_64 only" >&2; exit 1; }
# Files in artefacts carry the date of the commit, which makes builds reproducible.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
say() { printf 'release: %s\n' "$*" >&2; }
left_out=()
leave_out() { say "LEFT OUT: $*"; left_out+=("$*"); }

rm -rf "${stage:?}/bin" "${stage:?}/so"
mkdir -p "$stage/bin" "$stage/so"

# Compile the commands, and the core library that the extensions link.
glibc=x86_64-unknown-linux-gnu
core=${FERMATA_CORE:-$(built "$glibc" libfermata_ffi.a)}
binary=${FERMATA_BINARY:-$(built "$glibc" fermata)}
missing=()
[ -n "${FERMATA_CORE:-}" ] || missing+=(fermata-ffi)
[ -n "${FERMATA_BINARY:-}" ] || missing+=(fermata-cli)
[ ${#missing[@]} -eq 0 ] || compile "$glibc" "${missing[@]}"
install -D "$binary" "$stage/bin/x86_64-glibc/fermata"
declare -A cores=(["x86_64-glibc"]=$core)
if [ -z "$quick" ]; then
    for_target() { # target, its name in artefacts, its name in words
        local missing
        missing=$(missing_for "$1")
        [ -z "$missing" ] || { leave_out "the command and the extension for $3: $missing"; return; }
        compile "$1" fermata-ffi fermata-cli
        install -D "$(built "$1" fermata)" "$stage/bin/$2/fermata"
        cores[$2]=$(built "$1" libfermata_ffi.a)
    }
    for_target "$musl" x86_64-musl "x86_64 without glibc"
    for_target "$arm64" arm64-glibc arm64
    if [ -n "${cores[x86_64-musl]:-}" ]; then
        with_unwinder "${cores[x86_64-musl]}" "$stage/x86_64-musl.a"
        cores[x86_64-musl]=$stage/x86_64-musl.a
    fi
fi

# extension NAME PHPIZE PHP_CONFIG [TARGET]
seen=' '
extension() {
    local version target=${4:-x86_64-glibc} compiler=() arguments=
    version=$("$3" --version)
    version=${version%.*}
    ! grep -q '^#define ZTS 1' "$("$3" --include-dir)/main/php_config.h" || version+=+zts
    case $seen in *" $version-$target "*) return ;; esac
    seen+="$version-$target "
    say "the extension for PHP $version, $target"
    case $target in
        arm64-*) compiler=(CC=aarch64-linux-gnu-gcc) arguments=--host=aarch64-linux-gnu ;;
        *-musl) compiler=("CC=$(musl_compiler "$cache")") ;;
    esac
    env "${compiler[@]}" CONFIGURE_ARGUMENTS=$arguments PHPIZE="$2" PHP_CONFIG="$3" BUILD="$stage/$1" FERMATA_CORE="${cores[$target]}" \
        CFLAGS="-g -O2 -ffile-prefix-map=$root=. -ffile-prefix-map=$cache=." scripts/build-ext.sh >/dev/null
    install -D "$stage/$1/fermata.so" "$stage/so/php$version-$target/fermata.so"
}
# Builds the extension for the PHP of a Debian root folder, with copies of its phpize and php-config adapted to the folder.
extension_of_root() { # folder, version
    local tools=$stage/tools-$2
    [ -x "$1/usr/bin/phpize$2" ] || { leave_out "the extension for PHP $2: make test-php${2/./} makes the folder $1 that has it"; return; }
    tools_of_root "$1" "$2" "$tools"
    extension "php$2" "$tools/phpize" "$tools/php-config"
}
for config in ${FERMATA_PHP_CONFIGS:-}; do
    extension "php-$("$config" --version)" "${config/php-config/phpize}" "$config"
done
version=$("${PHP:-php}" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
extension "php$version" "$(command -v "phpize$version" || command -v phpize)" "$(command -v "php-config$version" || command -v php-config)"
if [ -z "$quick" ]; then
    for version in 8.2 8.3; do
        command -v "php-config$version" >/dev/null && extension "php$version" "$(command -v "phpize$version")" "$(command -v "php-config$version")"
        case $seen in *" $version-x86_64-glibc "*) ;; *) leave_out "the extension for PHP $version: this machine has no php-config$version, and FERMATA_PHP_CONFIGS names none" ;; esac
    done
    extension_of_root "$cache/trixie" 8.4
    extension_of_root "$cache/sid" 8.5
    has_zts=
    # Build the extensions for arm64 and for musl, for the PHP versions that their tests use.
    arm64_extension() {
        local php version
        php=$(scripts/arm64-php.sh --root) || php=
        [ -n "$php" ] || { leave_out "the extension for arm64: there is no PHP for it"; return; }
        version=$(basename "$php"/usr/bin/php-config?.?)
        version=${version#php-config}
        tools_of_root "$php" "$version" "$stage/tools-arm64"
        extension "php$version-arm64" "$stage/tools-arm64/phpize" "$stage/tools-arm64/php-config" arm64-glibc
    }
    musl_extension() {
        local php
        php=$(FERMATA_PHP_LIBC=musl scripts/source-php.sh --php) || php=
        [ -n "$php" ] || { leave_out "the extension for musl: there is no PHP for it"; return; }
        extension "$(basename "$php")" "$php/bin/phpize" "$php/bin/php-config" x86_64-musl
    }
    [ -z "${cores[arm64-glibc]:-}" ] || arm64_extension
    [ -z "${cores[x86_64-musl]:-}" ] || musl_extension
    for config in "$cache"/php-*-zts/bin/php-config; do
        [ ! -x "$config" ] || { extension "$(basename "${config%/bin/*}")" "${config%-config}ize" "$config" && has_zts=yes; }
    done
    [ -n "$has_zts" ] || leave_out "the extension for a PHP with threads (ZTS): make test-zts compiles one"
fi

python3 scripts/release/pack.py --stage "$stage" --dist "$dist"
[ ${#left_out[@]} -eq 0 ] || printf 'release: left out: %s\n' "${left_out[@]}" >&2
