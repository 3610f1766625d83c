#!/usr/bin/env bash
# Checks the formatting of every language in the repository and runs static checks.
set -euo pipefail

cd "$(dirname "$0")/.."
# Version of the Python linter. It is installed from PyPI if this machine lacks it.
RUFF=0.17.6
php=${PHP:-php}
php_config=php-config$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
command -v "$php_config" >/dev/null || php_config="php-config"
step() { printf '== %s\n' "$*"; }

step "conflict markers"
if git grep -nE '^(<<<<<<<|>>>>>>>) '; then exit 1; fi

step "rustfmt"
cargo fmt --all --check

step "clippy"
cargo clippy --locked --quiet --workspace --all-targets -- -D warnings

step "modules"
python3 scripts/modules.py

step "floors of the extension"
python3 scripts/floors.py

step "dependencies"
python3 scripts/dependencies.py

step "look-ups"
python3 scripts/lookups.py

step "C warnings"
# PHP's headers are included as system headers, which suppresses their warnings.
read -ra includes < <("$php_config" --includes | sed 's/-I/-isystem /g')
cc -fsyntax-only -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror \
    -Wno-unused-parameter -Wno-missing-field-initializers \
    "${includes[@]}" -DCOMPILE_DL_FERMATA=1 -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -Iext ext/*.c ext/*/*.c

step "texts without an end"
# "%.*s" is forbidden: PHP's headers replace snprintf() by PHP's own, which calls strlen() on the argument.
if git grep -nE '"[^"]*%\.\*s' -- 'ext/*.c'; then exit 1; fi

step "PHP syntax"
git ls-files -z '*.php' | xargs -0 -P "$(nproc)" -n 1 "$php" -n -l >/dev/null

step "JavaScript syntax"
git ls-files -z '*.js' '*.mjs' | xargs -0 -r -n 1 node --check

step "ARCHITECTURE.md, CONTRIBUTING.md"
scripts/architecture.py --check

step "SECURITY.md"
scripts/security.py

step "claims and links of the pages"
python3 scripts/claims.py

step "Python"
ruff=$(command -v ruff || true)
if [ -z "$ruff" ]; then
    ruff=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}/ruff-$RUFF/bin/ruff
    [ -x "$ruff" ] || python3 -m pip install --quiet --disable-pip-version-check --target "${ruff%/bin/ruff}" "ruff==$RUFF"
fi
"$ruff" check --quiet --config bench/ruff.toml bench scripts tests

step "shell scripts"
if command -v shellcheck >/dev/null; then
    git ls-files -z 'scripts/*.sh' 'bench/*.sh' 'bench/**/*.sh' .ci/run | xargs -0 shellcheck --severity=warning
else
    echo "shellcheck is not installed; skipped"
fi
echo "lint: clean"
