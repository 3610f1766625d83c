#!/bin/sh
# Tests a running server: sh test.sh [http://127.0.0.1:8080]
set -eu
server=${1:-http://127.0.0.1:8080}
expect() { # what is expected, then the arguments of curl
    expected=$1
    shift
    got=$(curl -sS -o /dev/null -w '%{http_code}' "$@") || { echo "nothing answers; start it with: fermata serve server.php" >&2; exit 1; }
    [ "$got" = "$expected" ] || { echo "$*: $got instead of $expected" >&2; exit 1; }
}
expect 200 "$server/"
expect 201 -d '{"text":"Hello"}' "$server/notes"
expect 200 "$server/notes"
expect 404 "$server/notes/0"
expect 400 -d '{"text":1}' "$server/notes"
echo 'all as expected'
