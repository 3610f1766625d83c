#!/usr/bin/env bash
# Connects CLIENTS=10000 held clients of one user to a running chat for HOLD=60 seconds. The chat page shows their number.
#   scripts/crowd.sh [http://127.0.0.1:8000]
# Needs build/fermata and curl.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
url=${1:-http://127.0.0.1:8000}
clients=${CLIENTS:-10000} seconds=${HOLD:-60}
jar=$(mktemp)
trap 'rm -f "$jar"' EXIT

name="Crowd $(date +%H%M%S)"
status=$(curl --silent --max-time 30 --output /dev/null --write-out '%{http_code}' --cookie-jar "$jar" \
    --header 'Content-Type: application/json' --header "Origin: $url" \
    --data "{\"name\":\"$name\",\"password\":\"$(head -c 12 /dev/urandom | base64)\"}" "$url/users") || status=000
case $status in
    201) ;;
    000)
        echo "crowd: no chat answers at $url; start it by \`make chat\` in another terminal" >&2
        exit 2
        ;;
    *)
        echo "crowd: the chat at $url has answered $status when \"$name\" signed up" >&2
        exit 2
        ;;
esac
cookie=$(awk '$6 ~ /chat_session/ { print $6 "=" $7 }' "$jar")
echo "crowd: \"$name\" joins $clients times for $seconds s; the corner of the page at $url counts them"
exec "$root/build/fermata" load sse --clients "$clients" --duration "${seconds}s" --connecting-max 500 --header "Cookie: $cookie" "$url/events"
