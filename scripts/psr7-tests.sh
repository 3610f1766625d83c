#!/usr/bin/env bash
# Runs php-http's PSR-7 integration tests on the requests and files that the PSR-15 bridge passes to handlers: with Debian's
# libraries, and with laminas/laminas-diactoros if FERMATA_LAMINAS names a checkout of it.
#
#   scripts/psr7-tests.sh [FOLDER]     FOLDER is a checkout of github.com/php-http/psr7-integration-tests
#
# Needs build/fermata.so and phpunit. FOLDER defaults to FERMATA_PSR7_TESTS; without both no test runs.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
tests=${1:-${FERMATA_PSR7_TESTS:-}}
if [ -z "$tests" ]; then
    echo "psr7-tests: NOT RUN: FERMATA_PSR7_TESTS names no checkout of php-http/psr7-integration-tests"
    exit 0
fi
if [ ! -e "$tests/src/ServerRequestIntegrationTest.php" ]; then
    echo "psr7-tests: $tests is no checkout of php-http/psr7-integration-tests" >&2
    exit 2
fi
FERMATA_PSR7_TESTS=$(cd "$tests" && pwd)
export FERMATA_PSR7_TESTS

run() { # library, folder of Debian's PHP
    echo "psr7-tests: $1"
    TEST_PSR7=$1 "${PHP:-php}" -d extension="${FERMATA_EXTENSION:-$root/build/fermata.so}" -d include_path=".:$2" "$(command -v phpunit)" \
        --do-not-cache-result --verbose --bootstrap "$root/php/tests/Psr7/autoload.php" "$root/php/tests/Psr7"
}
status=0
for library in nyholm guzzle slim; do
    run "$library" /usr/share/php || status=$?
done
if [ -z "${FERMATA_LAMINAS:-}" ]; then
    echo "psr7-tests: laminas: NOT RUN: FERMATA_LAMINAS names no checkout of laminas/laminas-diactoros"
else
    # laminas-diactoros needs newer PSR interfaces than Debian 12 has.
    FERMATA_LAMINAS=$(cd "$FERMATA_LAMINAS" && pwd)
    export FERMATA_LAMINAS
    frameworks=$("$root/scripts/newer-frameworks.sh")
    run laminas "$frameworks:/usr/share/php" || status=$?
fi
exit "$status"
