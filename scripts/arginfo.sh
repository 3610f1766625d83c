#!/bin/sh
# Generates ext/fermata_arginfo.h from ext/fermata.stub.php. With --check, only compares the two and fails if they differ.
#
# PHP's gen_stub.php downloads PHP-Parser unless the folder PHP-Parser-VERSION exists next to it. A scratch folder therefore
# holds a copy of gen_stub.php and a link to the parser of Debian's php-parser package.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
php=${PHP:-php}
php_config=${PHP_CONFIG:-php-config}
gen_stub=${GEN_STUB:-$("$php_config" --phpapi | xargs printf '/usr/lib/php/%s/build/gen_stub.php')}
[ -f "$gen_stub" ] || gen_stub=$("$php_config" --prefix)/lib/php/build/gen_stub.php
parser=${PHP_PARSER:-/usr/share/php/PhpParser}

if [ ! -f "$gen_stub" ]; then
    echo "arginfo: gen_stub.php not found; install php-dev or set GEN_STUB to its path" >&2
    exit 1
fi
if [ ! -d "$parser" ]; then
    echo "arginfo: $parser not found; install php-parser or set PHP_PARSER to PHP-Parser's lib/PhpParser" >&2
    exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$gen_stub" "$scratch/gen_stub.php"
# shellcheck disable=SC2016 # the dollar signs are PHP's
version=$(sed -n 's/.*\$version = "\([0-9.]*\)";.*/\1/p' "$gen_stub" | head -n 1)
mkdir -p "$scratch/PHP-Parser-$version/lib"
ln -s "$parser" "$scratch/PHP-Parser-$version/lib/PhpParser"
cp "$root/ext/fermata.stub.php" "$scratch/fermata.stub.php"

# No -n: the tokenizer may be a shared extension that the system's ini files load.
"$php" -d error_reporting=E_ALL\&~E_DEPRECATED "$scratch/gen_stub.php" -f "$scratch/fermata.stub.php" >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    exit 1
}
if [ ! -f "$scratch/fermata_arginfo.h" ]; then
    cat "$scratch/log" >&2
    exit 1
fi

if [ "${1:-}" = "--check" ]; then
    if ! diff -u "$root/ext/fermata_arginfo.h" "$scratch/fermata_arginfo.h"; then
        echo "arginfo: ext/fermata_arginfo.h is out of date; run scripts/arginfo.sh" >&2
        exit 1
    fi
else
    cp "$scratch/fermata_arginfo.h" "$root/ext/fermata_arginfo.h"
fi
