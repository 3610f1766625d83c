#!/usr/bin/env bash
# Builds docs/ as a site in build/site, with a page for every class of the extension. Fails on a dead link.
set -euo pipefail

cd "$(dirname "$0")/.."
version=9.8.1
# Version of iframe-worker. The search needs this script on file: pages, where browsers start no web worker.
shim=1.0.4
tools=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}/site-$version
source=build/site-source

# Runs a command that downloads from a registry, up to three times.
download() {
    local attempt
    for attempt in 1 2 3; do
        "$@" && return
        echo "attempt $attempt of 3 failed: $*" >&2
        sleep $((attempt * 5))
    done
    return 1
}
if [ ! -x "$tools/bin/mkdocs" ]; then
    python3 -m venv "$tools"
    download "$tools/bin/pip" install --quiet --disable-pip-version-check "mkdocs-material==$version"
fi
if [ ! -e "$tools/package/shim/index.js" ]; then
    download npm pack --silent --pack-destination "$tools" "iframe-worker@$shim" >/dev/null
    tar xzf "$tools/iframe-worker-$shim.tgz" -C "$tools"
fi
python3 scripts/site/prepare.py "$source"
"${PHP:-php}" scripts/site/reference.php ext/fermata.stub.php "$source/reference/php"
# Suppresses MkDocs' announcement of its next version.
NO_MKDOCS_2_WARNING=1 "$tools/bin/mkdocs" build --strict --config-file scripts/site/mkdocs.yml
cp "$tools/package/shim/index.js" build/site/assets/javascripts/iframe-worker.js
python3 scripts/site/llms.py "$source" build/site
python3 - build/site <<'PYTHON'
"""Makes every page load the shim from the site, and fails if a page still loads a file from another host."""
import os
import pathlib
import re
import sys

site = pathlib.Path(sys.argv[1])
left = []
for page in site.rglob("*.html"):
    own = os.path.relpath(site / "assets/javascripts/iframe-worker.js", page.parent)
    text = page.read_text().replace("https://unpkg.com/iframe-worker/shim", own)
    page.write_text(text)
    left += [f"{page}: {url}" for url in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', text)]
print(*left, sep="\n", end="")
sys.exit(1 if left else 0)
PYTHON
echo "built build/site/index.html"
