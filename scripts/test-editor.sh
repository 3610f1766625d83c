#!/usr/bin/env bash
# A language server's view of programs that use the Composer package: see scripts/editor/check.mjs.
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
exec node scripts/editor/check.mjs "$folder"
