#!/usr/bin/env bash
# Checks the files for operators in packaging/. Alerts and dashboard are compared with the metrics of a running server, and promtool
# checks the alerts. Kubernetes manifests are checked against the schemas, and their configuration runs. logrotate runs its file.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
# shellcheck source=scripts/report.sh
. scripts/report.sh
work=$(mktemp -d)
servers=()
end() {
    [ "${#servers[@]}" = 0 ] || kill "${servers[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

extension=${FERMATA_EXTENSION:-$PWD/build/fermata.so}
[ -f "$extension" ] || { echo "$extension not found; run make first" >&2; exit 1; }
cat >"$work/server.php" <<'PHP'
<?php
$server = new Fermata\Server(listen: 'unix:' . __DIR__ . '/server.sock', workers: 1, metrics: 'http://127.0.0.1:0');
$server->get('/', fn () => Fermata\Response::text('ok'));
$table = new Fermata\Table(10, [Fermata\Table\Column::int('count')]);
$server->run();
PHP
# Nothing listens on port 1. A server whose log is unreachable still has all metrics of a cluster.
FERMATA_CLUSTER=nats://127.0.0.1:1 "${PHP:-php}" -d extension="$extension" "$work/server.php" >"$work/log" 2>&1 &
servers+=("$!")
"${FERMATA_COMMAND:-$PWD/build/fermata}" edge --listen 127.0.0.1:0 --route '* 127.0.0.1:1' --control "unix:$work/edge.sock" \
    --prometheus 127.0.0.1:0 >"$work/edge-log" 2>&1 &
servers+=("$!")
answers() { # log, where to
    local address
    for _ in $(seq 600); do
        address=$(sed -n 's/.*metrics and health at //p' "$1")
        [ -n "$address" ] && curl -sf --max-time 20 "$address/metrics" >"$2" && return
        sleep 0.1
    done
    cat "$1"
    return 1
}
report "a server tells its metrics" answers "$work/log" "$work/metrics"
report "an edge tells its metrics" answers "$work/edge-log" "$work/edge-metrics"
cat "$work/metrics" "$work/edge-metrics" >"$work/all-metrics"
report "alerts and dashboard ask for what there is" \
    python3 scripts/monitoring.py "$work/all-metrics" packaging/prometheus/alerts.yml packaging/grafana/fermata.json

# Installing Debian's package would start a server, so only the executable is unpacked.
promtool=$(command -v promtool || echo "$cache/promtool/usr/bin/promtool")
if [ ! -x "$promtool" ]; then
    mkdir -p "$cache"
    (cd "$work" && apt-get download prometheus >/dev/null 2>&1 && dpkg-deb -x prometheus_*.deb "$work/prometheus") || true
    if [ -x "$work/prometheus/usr/bin/promtool" ]; then
        mkdir -p "$cache/promtool/usr/bin"
        cp "$work/prometheus/usr/bin/promtool" "$cache/promtool/usr/bin/promtool.$$"
        mv "$cache/promtool/usr/bin/promtool.$$" "$promtool"
    fi
fi
if [ -x "$promtool" ]; then
    passes() { "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }; }
    well_formed() { "$promtool" check metrics <"$1" >"$work/said" 2>&1 || ! grep -qi 'error while' "$work/said"; }
    report "promtool reads the metrics of the server" well_formed "$work/metrics"
    report "promtool reads the metrics of the edge" well_formed "$work/edge-metrics"
    report "promtool reads the alerts" passes "$promtool" check rules packaging/prometheus/alerts.yml
    report "promtool tries the alerts" passes "$promtool" test rules packaging/prometheus/alerts.test.yml
else
    echo "the alerts were NOT TRIED: promtool cannot be had"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
fi
# This package also installs a YAML parser.
schemas=$cache/kubernetes-validate-1.37.0
[ -d "$schemas" ] || python3 -m pip install --quiet --disable-pip-version-check --target "$schemas" kubernetes-validate==1.37.0 || true
if [ -d "$schemas" ] && command -v nats-server >/dev/null; then
    report "Kubernetes' manifests: valid, and a cluster by them outlives a server of its log" \
        env PYTHONPATH="$schemas" python3 scripts/kubernetes.py
else
    echo "Kubernetes' manifests were NOT TRIED: kubernetes-validate or nats-server cannot be had"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
fi
if command -v logrotate >/dev/null; then
    rotates() {
        mkdir -p "$work/logs/chat" && echo line >"$work/logs/chat/access.log"
        sed "s|/var/log/fermata|$work/logs|; s|systemctl .*|touch $work/told|" packaging/logrotate/fermata >"$work/logrotate"
        chmod 644 "$work/logrotate"
        logrotate --force --state "$work/state" "$work/logrotate" 2>&1
        [ -e "$work/told" ] && [ -e "$work/logs/chat/access.log.1" ] && [ ! -e "$work/logs/chat/access.log" ]
    }
    report "logrotate moves an access log and tells the server" rotates
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
