#!/usr/bin/env bash
# Runs Revolt's own tests of event loop drivers on Fermata\Revolt\Driver, and Fermata's tests of that driver in a server.
#
#   scripts/revolt.sh FOLDER     FOLDER is a checkout of github.com/revoltphp/event-loop
#
# Needs build/fermata.so and phpunit. FOLDER defaults to FERMATA_REVOLT; without both no test runs.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
revolt=${1:-${FERMATA_REVOLT:-}}
if [ -z "$revolt" ]; then
    echo "revolt: not run: no checkout of revoltphp/event-loop given" >&2
    exit 0
fi
if [ ! -e "$revolt/test/Driver/DriverTest.php" ]; then
    echo "revolt: $revolt is no checkout of revoltphp/event-loop" >&2
    exit 2
fi
php=${PHP:-php}
FERMATA_REVOLT=$(cd "$revolt" && pwd)
export FERMATA_REVOLT FERMATA_ROOT="$root" REVOLT_DRIVER_SUPPRESS_ISSUE_10496=1
"$php" -d extension="${FERMATA_EXTENSION:-$root/build/fermata.so}" -d zend.assertions=1 "$(command -v phpunit)" \
    --do-not-cache-result --bootstrap "$root/php/tests/autoload.php" "$root/php/tests/Revolt/DriverTest.php"
exec "$root/scripts/phpt.sh" revolt_served
