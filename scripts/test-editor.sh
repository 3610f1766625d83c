#!/usr/bin/env bash
# Checks the diagnostics of a language server for scripts that use the Composer package: see scripts/editor/check.mjs.
#
#   PSALM=FILE scripts/test-editor.sh   also runs Psalm at its strictest level; FILE is psalm.phar, which no package contains
set -euo pipefail

cd "$(dirname "$0")/.."
INTELEPHENSE=1.18.5
folder=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}/intelephense-$INTELEPHENSE
if [ ! -e "$folder/node_modules/intelephense" ]; then
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    npm install --silent --no-fund --no-audit --no-save --prefix "$folder.new" "intelephense@$INTELEPHENSE"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
fi
node scripts/editor/check.mjs "$folder"

if [ -z "${PSALM:-}" ]; then
    echo "Psalm was NOT RUN: PSALM=FILE names psalm.phar"
    exit
fi
# shellcheck source=scripts/report.sh
. scripts/report.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for program in good wrong; do
    mkdir "$work/$program"
    cp "scripts/editor/$program.php" "$work/$program/"
    echo '{"autoload": {}}' >"$work/$program/composer.json"
    # Psalm requires a Composer autoloader. This one loads no classes.
    mkdir "$work/$program/vendor"
    echo '<?php return new \Composer\Autoload\ClassLoader();' >"$work/$program/vendor/autoload.php"
    cat >"$work/$program/psalm.xml" <<XML
<?xml version="1.0"?>
<psalm errorLevel="1" findUnusedCode="false" findUnusedBaselineEntry="false" xmlns="https://getpsalm.org/schema/config">
    <projectFiles><file name="$program.php"/></projectFiles>
    <stubs><file name="$PWD/php/stubs/fermata.php"/></stubs>
</psalm>
XML
    (cd "$work/$program" && php "$PSALM" --no-cache --threads=1 --no-progress --output-format=text) >"$work/$program/said" 2>&1 &&
        touch "$work/$program/is_right"
    grep -o "$program.php:[0-9]*:.*error - .*" "$work/$program/said" >"$work/$program/errors" || true
done
is_right() { [ -e "$work/good/is_right" ] || { cat "$work/good/said"; return 1; }; }
report "Psalm finds nothing in a right program" is_right
finds() { grep -q "^wrong.php:$1:" "$work/wrong/errors" || { cat "$work/wrong/said"; return 1; }; }
while read -r line; do
    report "Psalm finds line $line of a wrong program" finds "$line"
done < <(grep -n '^\$server->\|^Channel\|^async\|^new\|^strlen' scripts/editor/wrong.php | cut -d : -f 1)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
