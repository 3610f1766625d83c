#!/usr/bin/env bash
# Compiles the extension's C code, without linking, against the headers of every PHP found. Also checks that no file except
# ext/base/versions.h tests the PHP version.
#
#   scripts/php-versions.sh [FOLDER…]   FOLDER: additional headers, with the subfolders main, Zend, TSRM and ext
#
# php-config locates the host's headers. Those of scripts/other-php.sh and scripts/source-php.sh are found in their cache.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
# shellcheck source=scripts/report.sh
. scripts/report.sh
asks_nowhere_else() {
    ! grep -rnE --include='*.[ch]' --exclude=versions.h --exclude=fermata_arginfo.h \
        'PHP_VERSION_ID|PHP_(MAJOR|MINOR)_VERSION|PHP_API_VERSION|ZEND_MODULE_API_NO|ZEND_EXTENSION_API_NO|ZEND_CHECK_STACK_LIMIT' ext
}
compiles() { # folder of headers
    local include=() sources
    mapfile -t sources < <(find ext -name '*.c')
    for part in '' /main /TSRM /Zend /ext /ext/date/lib; do
        include+=(-isystem "$1$part")
    done
    # These two warnings come from PHP's macros; all other warnings are errors.
    cc -fsyntax-only -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers \
        "${include[@]}" -Iext -DCOMPILE_DL_FERMATA=1 -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 "${sources[@]}"
}
version_of() {
    sed -n 's/^#define PHP_VERSION "\(.*\)"/\1/p' "$1/main/php_version.h"
    ! grep -q '^#define ZTS 1' "$1/main/php_config.h" || echo 'with threads'
}

report "ext/base/versions.h is the only place that asks for a version" asks_nowhere_else
folders=("$@")
for folder in /usr/include/php/2* "$cache"/*/usr/include/php/2* "$cache"/php-*/include/php; do
    [ ! -e "$folder/main/php_version.h" ] || folders+=("$folder")
done
[ ! -e "$(php-config --include-dir 2>/dev/null)/main/php_version.h" ] || folders+=("$(php-config --include-dir)")
seen=' '
for folder in "${folders[@]}"; do
    version=$(version_of "$folder" | paste -sd " ")
    case $seen in *" $version "*) continue ;; esac
    seen+="$version "
    report "headers of PHP $version" compiles "$folder"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
