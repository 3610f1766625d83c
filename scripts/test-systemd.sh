#!/usr/bin/env bash
# Checks the systemd unit of docs/deploy.md with systemd-analyze, and runs it under a separate systemd.
#
# That systemd runs in its own namespaces and network, on an overlay of this machine's files, and stops with this script. It needs
# root and cgroup2. Without them the script runs only the static checks, and reports that.
set -euo pipefail

cd "$(dirname "$0")/.."
unit=packaging/systemd/chat.service
exposure_max=30 # tenths of systemd-analyze's exposure level
# shellcheck source=scripts/report.sh
. scripts/report.sh
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}
skip() {
    echo "the unit was NOT RUN: $*"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
    finish
}

if ! command -v systemd-analyze >/dev/null; then
    echo "skipped: systemd-analyze is not installed"
    [ -z "${CI:-}" ]
    exit
fi
is_valid() {
    local said
    said=$(systemd-analyze verify "$PWD/$unit" 2>&1) && ! grep -q chat.service <<<"$said" || { echo "$said"; return 1; }
}
report "systemd-analyze verify" is_valid
exposure=$(systemd-analyze security --offline=true --no-pager "$unit" | sed -n 's/.*Overall exposure level.*: \([0-9]*\)\.\([0-9]\).*/\1\2/p')
report "exposure of $exposure tenths, at most $exposure_max" [ "${exposure:-100}" -le "$exposure_max" ]

[ "$(id -u)" = 0 ] || skip "this needs root"
[ -x /lib/systemd/systemd ] || skip "systemd is not installed"
command -v ip >/dev/null || skip "the command ip is not installed"
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$groups" ] && [ -w "$groups" ] || skip "no cgroup2 is mounted"
extension=${FERMATA_EXTENSION:-$PWD/build/fermata.so}
[ -f "$extension" ] || { echo "$extension not found; run make first" >&2; exit 1; }

work=$(mktemp -d /var/tmp/fermata-systemd-XXXXXX)
group=$groups/fermata-systemd-$$
boot=
end() {
    [ -z "$boot" ] || kill -KILL "$boot" 2>/dev/null || true
    # A cgroup can be removed only after its processes have exited, and the innermost cgroup first.
    for _ in 1 2 3 4 5; do
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -e "$group" ] || break
        sleep 0.2
    done
    rm -rf --one-file-system "$work"
}
trap end EXIT
mkdir "$work/upper" "$work/work" "$work/root" "$group"

# Upper layer of the overlay.
upper=$work/upper
units=$upper/etc/systemd/system
mkdir -p "$units" "$upper/srv/chat" "$upper/usr/local/lib"
cp "$extension" "$upper/usr/local/lib/fermata.so"
sed "s|extension=fermata |extension=/usr/local/lib/fermata.so |; s|/usr/bin/php |$(readlink -f "$(command -v "${PHP:-php}")") |" "$unit" >"$units/chat.service"
cat >"$upper/srv/chat/server.php" <<'PHP'
<?php
use Fermata\{Channel, Event, Response, Server};
use function Fermata\delay;

Fermata\Runtime::hook();
$server = new Server();
$server->get('/', function () {
    delay(0.001);
    return Response::text((string) preg_match('~^(a|b)+$~', 'abab'));
});
$server->get('/writes', function () {
    $places = ['/srv/chat/x', '/etc/x', '/usr/x', '/root/x', '/var/lib/chat/x', '/tmp/x'];
    return Response::json(array_map(fn ($place) => (int) (@file_put_contents($place, 'x') === 1), $places));
});
$server->get('/runs', fn () => Response::text((string) shell_exec('echo ran')));
$server->post('/publish', fn () => Response::text((string) Channel::get('a')->publish(new Event('x'))));
$server->run();
PHP
cat >"$upper/usr/local/lib/checks" <<'CHECKS'
#!/bin/bash
get() { curl -s --max-time 20 "http://127.0.0.1:8080$1" "${@:2}"; }
for _ in {1..300}; do
    case $(systemctl is-active chat) in active) break ;; failed) break ;; esac
    sleep 0.1
done
pid() { systemctl show --property MainPID --value chat; }
{
    echo "active: $(systemctl is-active chat)"
    if [ "$(systemctl is-active chat)" != active ]; then
        systemctl status --no-pager --full chat
        journalctl --no-pager -n 50
        mv /result.new /result
        exit
    fi
    echo "a handler waits, and PCRE's JIT works: $(get /)"
    echo "where it can write: $(get /writes)"
    echo "a command: $(get /runs)"
    echo "publishes: $(get /publish -X POST | grep -c .)"
    echo "metrics: $(curl -s --max-time 20 -o /dev/null -w '%{http_code}' http://127.0.0.1:9464/health/ready)"
    before=$(pid)
    systemctl reload chat
    sleep 0.3
    [ "$(pid)" = "$before" ] && echo "reload keeps the process: $(get /)"
    kill -KILL "$before"
    for _ in {1..200}; do [ "$(pid)" != "$before" ] && [ "$(get /)" = 1 ] && break; sleep 0.1; done
    echo "a killed server is started again: $(get /)"
    systemctl stop chat
    echo "stopped: $(systemctl show --property Result --value chat), status $(systemctl show --property ExecMainStatus --value chat)"
} >/result.new 2>&1
journalctl -u chat --no-pager >/journal 2>&1
mv /result.new /result
CHECKS
chmod +x "$upper/usr/local/lib/checks"
cat >"$units/fermata-test.service" <<'UNIT'
[Unit]
Requires=basic.target
After=basic.target
Wants=chat.service
[Service]
Type=oneshot
ExecStart=/usr/local/lib/checks
UNIT

(
    echo "$BASHPID" >"$group/cgroup.procs"
    # shellcheck disable=SC2016 # for the inner shell
    exec unshare --mount --pid --fork --kill-child --cgroup --net --ipc --uts --propagation private bash -euc '
        work=$1 root=$1/root
        mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"
        mount -t proc proc "$root/proc"
        mount -t sysfs sysfs "$root/sys"
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
        mount -t tmpfs tmpfs "$root/run"
        mount -t tmpfs -o mode=755 tmpfs "$root/dev"
        for device in null zero full random urandom tty; do
            : >"$root/dev/$device"
            mount --bind "/dev/$device" "$root/dev/$device"
        done
        mkdir "$root/dev/shm" "$root/dev/pts"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        ip link set lo up
        # Start none of the services of this machine.
        rm -rf "$root"/etc/systemd/system/*.wants
        chroot "$root" useradd --system --home-dir /srv/chat --shell /usr/sbin/nologin chat
        # Not chroot: systemd creates mount namespaces, which start at the root of this one.
        mkdir "$root/old"
        cd "$root"
        pivot_root . old
        umount -l /old
        exec /usr/bin/env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            /lib/systemd/systemd --unit=fermata-test.service --show-status=0
    ' bash "$work"
) </dev/null >"$work/boot.log" 2>&1 &
boot=$!
# Keep the shell from reporting the exit of this process.
disown "$boot"
for _ in $(seq 900); do
    [ ! -e "$upper/result" ] || break
    kill -0 "$boot" 2>/dev/null || break
    sleep 0.1
done
if [ ! -e "$upper/result" ]; then
    cat "$work/boot.log" "$upper/result.new" 2>/dev/null || true
    report "a systemd of its own ran the unit" false
    finish
fi
result=$(cat "$upper/result")
has_line() { grep -qxF -- "$1" <<<"$result"; }
while read -r line; do
    report "under systemd, $line" has_line "$line"
done <<'EXPECTED'
active: active
a handler waits, and PCRE's JIT works: 1
where it can write: [0,0,0,0,1,1]
a command: ran
publishes: 1
metrics: 200
reload keeps the process: 1
a killed server is started again: 1
stopped: success, status 0
EXPECTED
[ "$failed" = 0 ] || { printf '%s\n' "$result"; cat "$upper/journal"; }
finish
