#!/usr/bin/env bash
# Runs the Autobahn Testsuite against the server with both I/O drivers, over HTTP/2 (RFC 8441, through a proxy in Node), and
# against Fermata\WebSocket\Client. Writes summaries to tests/conformance/autobahn.json and docs/conformance.md. Takes an hour.
#
#   scripts/autobahn.sh [server|server-io_uring|server-http2|client]… [--cases PATTERN[,PATTERN…]]
#
# Without --cases all cases run. With --cases the summary is printed and not saved.
# The suite needs Python 2.7: AUTOBAHN_PYTHON is its command (default: pyenv's). The suite is installed into AUTOBAHN_DIR
# (default: target/autobahn), never into tracked folders or the system.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=25.10.1
extension=${FERMATA_EXTENSION:-$root/build/fermata.so}
php=${PHP:-php}
dir=${AUTOBAHN_DIR:-$root/target/autobahn}
agent=Fermata

sides=()
cases='*'
while [ $# -gt 0 ]; do
    case $1 in
        server | server-io_uring | server-http2 | client) sides+=("$1") ;;
        --cases)
            cases=${2:?--cases needs a pattern, such as 1.*,7.*}
            shift
            ;;
        *)
            echo "autobahn: unknown argument $1; use server, server-io_uring, server-http2, client or --cases" >&2
            exit 1
            ;;
    esac
    shift
done
[ ${#sides[@]} -gt 0 ] || sides=(server server-io_uring server-http2 client)

python=${AUTOBAHN_PYTHON:-$(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -maxdepth 3 -path '*/2.7.*/bin/python' 2>/dev/null | head -n 1)}
if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (2, 7))' 2>/dev/null; then
    echo "autobahn: the suite needs Python 2.7; install it (pyenv install 2.7.18) or set AUTOBAHN_PYTHON" >&2
    exit 1
fi
if [ ! -f "$extension" ]; then
    echo "autobahn: $extension not found; run make first or set FERMATA_EXTENSION" >&2
    exit 1
fi
mkdir -p "$dir"
packages=$dir/packages-$version
if [ ! -e "$packages/.complete" ]; then
    echo "installing autobahntestsuite $version into $packages"
    "$python" -m pip install --quiet --disable-pip-version-check --target "$packages" "autobahntestsuite==$version" 2>"$dir/install.log" || {
        cat "$dir/install.log" >&2
        exit 1
    }
    touch "$packages/.complete"
fi
# PYTHONPATH does not suffice, because namespace packages work only in a site folder.
suite() {
    exec "$python" -c "import site, sys; site.addsitedir('$packages'); sys.argv[0] = 'wstest'
from autobahntestsuite.wstest import run; run()" "$@"
}

started=
proxy=
end() {
    local one
    for one in $proxy $started; do
        kill "$one" 2>/dev/null || true
        wait "$one" 2>/dev/null || true
    done
    started=
    proxy=
}
trap end EXIT

# Waits until a line of a file matches, and prints the first such line.
wait_for() {
    local end=$((SECONDS + 30))
    until grep -m 1 -oE "$2" "$1" 2>/dev/null; do
        if [ $SECONDS -ge $end ]; then
            echo "autobahn: nothing like \"$2\" in $1:" >&2
            cat "$1" >&2
            exit 1
        fi
        sleep 0.1
    done
}

quoted=$(printf '"%s"' "${cases//,/\",\"}")
for side in "${sides[@]}"; do
    rm -rf "${dir:?}/$side"
    mkdir -p "$dir/$side"
    log=$dir/$side.log
    if [ "$side" != client ]; then
        io=epoll
        [ "$side" != server-io_uring ] || io=io_uring
        FERMATA_LISTEN=http://127.0.0.1:0 FERMATA_IO=$io "$php" -n -d "extension=$extension" tests/conformance/echo.php >"$log" 2>&1 &
        started=$!
        address=$(wait_for "$log" '127\.0\.0\.1:[0-9]+')
        if [ "$side" = server-http2 ]; then
            node tests/conformance/over_http2.mjs "$address" >"$dir/$side-proxy.log" 2>&1 &
            proxy=$!
            address=$(wait_for "$dir/$side-proxy.log" '127\.0\.0\.1:[0-9]+')
        fi
        cat >"$dir/$side.json" <<JSON
{"outdir": "$dir/$side", "cases": [$quoted], "exclude-cases": [], "exclude-agent-cases": {},
 "servers": [{"agent": "$agent", "url": "ws://$address/"}]}
JSON
        (suite -m fuzzingclient -s "$dir/$side.json") >"$dir/$side-suite.log" 2>&1
    else
        port=$("$php" -n -r 'echo explode(":", stream_socket_get_name(stream_socket_server("tcp://127.0.0.1:0"), false))[1];')
        cat >"$dir/$side.json" <<JSON
{"outdir": "$dir/$side", "cases": [$quoted], "exclude-cases": [], "exclude-agent-cases": {}, "url": "ws://127.0.0.1:$port"}
JSON
        (suite -m fuzzingserver -s "$dir/$side.json") >"$dir/$side-suite.log" 2>&1 &
        started=$!
        wait_for "$dir/$side-suite.log" 'Ok, will run' >/dev/null
        "$php" -n -d "extension=$extension" tests/conformance/client.php "ws://127.0.0.1:$port" "$agent"
    fi
    end
done

if [ "$cases" = '*' ]; then
    python3 scripts/autobahn.py --keep "$dir" "${sides[@]}"
else
    python3 scripts/autobahn.py "$dir" "${sides[@]}"
fi
