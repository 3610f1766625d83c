#!/usr/bin/env bash
# Builds the extension build/fermata.so and the command build/fermata.
#
# The extension is compiled in a copy of ext/, so phpize writes no files into the source tree. A run without changes does nothing.
# A change in crates/ only relinks, a changed header recompiles, and a changed config.m4 or list of files runs configure again.
#
#   PHP=php8.3 scripts/build-ext.sh      builds for another PHP
#   BUILD=build/asan CFLAGS=… …          builds into another folder, with other flags
#   FERMATA_CORE=libfermata_ffi.a …      links this core library and builds only the extension, without Rust
#   PROFILE=quick …                      builds the core with Cargo's profile `quick`: seconds after a change; not for benchmarks
#   PHPIZE=… PHP_CONFIG=… …              builds for the PHP of these two scripts, which need not run on this machine
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${BUILD:-build}
work=$build/ext
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
profile=${PROFILE:-release}
ready_core=${FERMATA_CORE:-}
export FERMATA_ROOT=$root FERMATA_CORE=${ready_core:-$CARGO_TARGET_DIR/$profile/libfermata_ffi.a}
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

php=${PHP:-php}
if [ -n "${PHP_CONFIG:-}" ]; then
    php_config=$PHP_CONFIG
    phpize=${PHPIZE:?is to be named together with PHP_CONFIG}
    version=$("$php_config" --version)
    version=${version%.*}
else
    version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    phpize=phpize$version
    php_config=php-config$version
    command -v "$phpize" >/dev/null || phpize="phpize"
    command -v "$php_config" >/dev/null || php_config="php-config"
fi

mkdir -p "$work"
# Concurrent builds in one folder would overwrite each other's files, so the second build waits.
exec 9>"$build/.lock"
flock 9
if [ -z "$ready_core" ]; then
    cargo build --profile "$profile" --locked -p fermata-ffi -p fermata-cli
    cmp -s "$CARGO_TARGET_DIR/$profile/fermata" "$build/fermata" ||
        install -m 755 "$CARGO_TARGET_DIR/$profile/fermata" "$build/fermata"
fi

# Copy only changed files, so that make sees the correct modification times.
for file in ext/*.[ch] ext/*/*.[ch] ext/*.php ext/config.m4; do
    copy=$work/${file#ext/}
    if ! cmp -s "$file" "$copy"; then
        mkdir -p "${copy%/*}"
        cp "$file" "$copy"
    fi
done

# Inputs of configure: the PHP, the flags, the list of sources and config.m4.
configuration=$(
    "$php_config" --version --extension-dir
    echo "$root $FERMATA_CORE ${CC:-} ${CFLAGS:-} ${LDFLAGS:-} ${CONFIGURE_ARGUMENTS:-}"
    ls ext/*.c ext/*/*.c
    cat ext/config.m4
)
if [ ! -e "$work/Makefile" ] || [ "$configuration" != "$(cat "$work/.configuration" 2>/dev/null)" ]; then
    echo "configuring for PHP $version"
    (
        cd "$work"
        if [ -e Makefile ]; then
            make -s distclean >/dev/null 2>&1 || true
        fi
        "$phpize" >configure.log 2>&1
        # shellcheck disable=SC2086 # several arguments
        ./configure -q ${CONFIGURE_ARGUMENTS:-} --with-php-config="$(command -v "$php_config")" >>configure.log 2>&1 ||
            { tail -n 30 configure.log >&2 && exit 1; }
    )
    printf '%s\n' "$configuration" >"$work/.configuration"
fi

# The Makefile lists the headers and the core library as dependencies, so make rebuilds only outdated files.
mkdir -p "$work/modules"
make -s -C "$work" -j"$(nproc)" >"$work/make.log" 2>&1 || {
    cat "$work/make.log" >&2
    exit 1
}
# Print compiler warnings of the extension even if the build succeeds.
grep -E 'warning:' "$work/make.log" >&2 || true

if ! cmp -s "$work/modules/fermata.so" "$build/fermata.so"; then
    # Replace the file by renaming, so that a running server keeps its mapping of the old file.
    cp "$work/modules/fermata.so" "$build/fermata.so.new"
    mv "$build/fermata.so.new" "$build/fermata.so"
fi
if [ -n "$ready_core" ]; then
    echo "built $build/fermata.so"
else
    echo "built $build/fermata.so and $build/fermata"
fi
