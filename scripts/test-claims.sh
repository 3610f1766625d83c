#!/usr/bin/env bash
# Tests claims.py: it reports false promises and denials of a page, and accepts true ones.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=scripts/report.sh
. scripts/report.sh

# problems TEXT: prints the problems that claims.py finds in a page with this text.
problems() {
    python3 - "$1" <<'PYTHON'
import sys
sys.path.insert(0, "scripts")
import claims
print("\n".join(claims.problems("page", sys.argv[1].replace("|", "\n"), claims.Facts())))
PYTHON
}
finds() { grep -qF -- "$1" <<<"$(problems "$2")"; }
accepts() { [ -z "$(problems "$1")" ]; }

report "a promised setting that does not exist" finds "promises setting nonsense" '---|promises:|  - setting nonsense|---|'
report "a denied class that exists" finds "denies class Table, which exists" '---|denies:|  - class Table|---|'
report "an unknown kind" finds "unknown kind" '---|promises:|  - colour blue|---|'
report "a sentence that denies a setting" finds "no setting io" 'There is no setting `io`.'
report "a link to a file that does not exist" finds "link to docs/nonsense.md" 'See [it](docs/nonsense.md#part).'
report "links to files, sites and parts" accepts '[a](docs/README.md), [b](https://example.org/x.md), [c](#part), `[d](e)`'
report "true claims" accepts '---|promises:|  - setting io|  - edge setting sig_key|  - method Request::earlyHints|  - ci docs|denies:|  - class Nonsense|---|'
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
