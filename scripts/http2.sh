#!/usr/bin/env bash
# Checks the HTTP/2 conformance of crates/proto: runs h2spec and real clients against its example server, if they are installed.
#
#   scripts/http2.sh            reports and skips tools that are not installed
#   FERMATA_HPACK_VECTORS=dir   also runs the vectors of http2jp/hpack-test-case
#
# h2spec: `go install github.com/summerwind/h2spec/cmd/h2spec@latest`; nghttp and h2load: Debian's nghttp2-client;
# Python's h2: `pip install h2` for the Python command in H2_PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${GOPATH:-$HOME/go}/bin"

passed=0
failed=0
skipped=0
check() { # name, command
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok       $name"
        passed=$((passed + 1))
    else
        echo "FAILED   $name"
        sed 's/^/         /' "$work/log" | tail -40
        failed=$((failed + 1))
    fi
}
skip() { # name, reason
    echo "not run  $1: $2"
    skipped=$((skipped + 1))
}

cargo build --locked --quiet -p fermata-proto --example h2c
work=$(mktemp -d)
mkfifo "$work/stdin"
"${CARGO_TARGET_DIR:-target}/debug/examples/h2c" <"$work/stdin" >"$work/address" 2>"$work/server.log" &
server=$!
# The server stops when its standard input is closed.
exec 3>"$work/stdin"
trap 'exec 3>&-; wait "$server"; rm -rf "$work"' EXIT
for _ in $(seq 100); do
    [ -s "$work/address" ] && break
    sleep 0.1
done
address=$(cat "$work/address")
url=http://$address

# Use the last line of h2spec's output, because its exit status does not cover skipped cases.
h2spec_passed() {
    timeout 300 h2spec -h 127.0.0.1 -p "${address#*:}" -o 5 >"$work/h2spec" || true
    sed -n '/^Failures:/,$p' "$work/h2spec"
    grep ' passed, 0 skipped, 0 failed$' "$work/h2spec"
}
curl_bodies() {
    head -c 300000 /dev/urandom >"$work/body"
    curl -sS --max-time 60 --http2-prior-knowledge --data-binary "@$work/body" -o "$work/back" "$url/echo" &&
        cmp "$work/body" "$work/back" &&
        [ "$(curl -sS --max-time 60 --http2-prior-knowledge -w ' %{http_version} %{http_code}' "$url/")" = 'hello 2 200' ] &&
        [ "$(curl -sS --max-time 60 --http2-prior-knowledge "$url/bytes/1000000" | wc -c)" = 1000000 ]
}
nghttp_multiplexed() {
    head -c 200000 /dev/urandom >"$work/body"
    timeout 60 nghttp -d "$work/body" -H'content-type: x/y' --header-table-size=0 "$url/echo" | cmp - "$work/body" &&
        timeout 60 nghttp -nvs -w 10 -W 12 "$url/bytes/100000" "$url/" "$url/events/50" | grep -c ' 200 ' | grep -qx 3
}
h2load_streams() {
    timeout 60 h2load -n 20000 -c 4 -m 100 "$url/" | grep 'status codes: 20000 2xx' &&
        timeout 60 h2load -n 100 -c 2 -m 50 "$url/events/200" | grep 'status codes: 100 2xx' &&
        timeout 60 h2load -n 50 -c 2 -m 10 -w 14 -W 15 "$url/bytes/200000" | grep 'status codes: 50 2xx'
}

if command -v h2spec >/dev/null; then
    check "h2spec, all cases" h2spec_passed
else
    skip h2spec "not installed"
fi
if curl --version 2>/dev/null | grep -q HTTP2; then
    check "curl: bodies both ways" curl_bodies
else
    skip curl "not installed, or without HTTP/2"
fi
if command -v nghttp >/dev/null; then
    check "nghttp: three streams, a small window, an empty table" nghttp_multiplexed
else
    skip nghttp "not installed"
fi
if command -v h2load >/dev/null; then
    check "h2load: 20,000 requests, 100 streams each connection; events; bodies" h2load_streams
else
    skip h2load "not installed"
fi
python=${H2_PYTHON:-python3}
if "$python" -c 'import h2' 2>/dev/null; then
    check "Python's h2: interleaved bodies, trailers, resets, ping" timeout 120 "$python" tests/conformance/h2_client.py "$address"
else
    skip "Python's h2" "not installed"
fi
if [ -n "${FERMATA_HPACK_VECTORS:-}" ]; then
    check "hpack-test-case" cargo test --locked --quiet -p fermata-proto --lib vectors_of_other
else
    skip hpack-test-case "FERMATA_HPACK_VECTORS names no folder"
fi
if grep -q panicked "$work/server.log"; then
    echo "FAILED   the server panicked"
    grep -A5 panicked "$work/server.log"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
