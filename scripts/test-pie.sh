#!/usr/bin/env bash
# Installs the extension by PIE in a fresh Debian 12: from a release archive, and from source.
#
#   PIE=FILE scripts/test-pie.sh   FILE is pie.phar, or a script that runs PIE from its own folder
#
# Debian does not package PIE; without PIE no test runs. Packagist and GitHub are not contacted: PIE runs in a separate network
# namespace, where release/registry.py serves their hosts as if this release were published. Needs root and debootstrap, like
# test-release.sh, which creates the Debian root folder.
#
#   DIST=FOLDER   uses the release in FOLDER instead of packing build/ again
set -euo pipefail

cd "$(dirname "$0")/.."
root=$PWD
seconds_max=900
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
debian=$cache/bookworm
# shellcheck source=scripts/report.sh
. scripts/report.sh
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
skip() {
    echo "PIE was NOT RUN: $*"
    exit 0
}
[ -n "${PIE:-}" ] || skip "PIE=FILE names pie.phar, of https://github.com/php/pie/releases"
[ -f "$PIE" ] || { echo "PIE=$PIE: there is no such file" >&2; exit 2; }
[ "$(id -u)" = 0 ] || skip "this needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount --net --pid --fork true 2>/dev/null || skip "this machine allows no mount, network and process namespaces"
mkdir -p "$cache"
why=$(debian_12 "$debian") || skip "$why"
work=$(mktemp -d /var/tmp/fermata-pie-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

core=${FERMATA_CORE:-${CARGO_TARGET_DIR:-$root/target}/release/libfermata_ffi.a}
dist=${DIST:-}
if [ -z "$dist" ]; then
    dist=$work/dist
    binary=${FERMATA_BINARY:-$root/build/fermata}
    [ -f "$core" ] && [ -f "$binary" ] || { echo "$core or $binary not found; run make first" >&2; exit 1; }
    FERMATA_CORE=$core FERMATA_BINARY=$binary DIST=$dist scripts/release.sh --quick >"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
fi
version=$(sed -n 's/^#define PHP_FERMATA_VERSION "\(.*\)"/\1/p' ext/php_fermata.h)

# Prepare two published releases. One has the archive. The other lacks it, as for a PHP or a machine that has no archive.
mkdir -p "$work"/{upper/packages,work,root,with/assets,without/assets}
cp "$dist"/php_fermata-*.zip "$work/with/assets/"
for published in with without; do
    cp composer.json "$work/$published/"
    git archive --format=zip --prefix=fermata-php-fermata-abcdef0/ -o "$work/$published/source.zip" HEAD
done
certificate() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$work/$1.key" -out "$work/$1.pem" "${@:2}" 2>/dev/null
}
certificate authority
certificate server -CA "$work/authority.pem" -CAkey "$work/authority.key" \
    -addext 'subjectAltName=DNS:api.github.com,DNS:github.com,DNS:repo.packagist.org' -addext 'basicConstraints=CA:FALSE'
cp "$work/authority.pem" "$work/upper/packages/"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

cat >"$work/upper/packages/server.php" <<PHP
<?php
use Fermata\{Response, Server};
\$server = new Server(listen: 'http://127.0.0.1:$port');
\$server->get('/', fn () => Response::text('hello'));
\$server->run();
PHP
cat >"$work/upper/packages/answer" <<'TRY'
php /packages/server.php >/packages/server.log 2>&1 &
server=$!
answer=
for _ in $(seq 200); do
    answer=$(php -n -r 'echo @file_get_contents("http://127.0.0.1:" . $argv[1]);' "$1")
    [ -z "$answer" ] || break
    sleep 0.05
done
kill "$server" && wait "$server"
[ "$answer" = hello ]
TRY
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
# shellcheck disable=SC2016 # for the inner shell
timeout "$seconds_max" unshare --mount --pid --fork --kill-child --propagation private bash -uc '
    work=$1 root=$1/root debian=$2 proxy=$3 pie=$4 core=$5 registry=$6 version=$7 port=$8
    mount -t overlay overlay -o "lowerdir=$debian,upperdir=$work/upper,workdir=$work/work" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/opt/pie" "$root/opt/core"
    mount --bind -o ro "$(dirname "$pie")" "$root/opt/pie"
    mount --bind -o ro "$(dirname "$core")" "$root/opt/core"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    within=(chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive SSL_CERT_FILE=/packages/authority.pem COMPOSER_ALLOW_SUPERUSER=1)
    result() { echo "$1" >>"$work/upper/packages/result"; }
    install() { "${within[@]}" ${proxy:+"http_proxy=$proxy"} apt-get install -qq -y --no-install-recommends "$@"; }
    pie_of() { # what is published, name of the log, then a command
        export published=$1 log=$2
        shift 2
        unshare --net bash -c "
            ip link set lo up
            echo 127.0.0.1 localhost api.github.com github.com repo.packagist.org >\"$root/etc/hosts\"
            rm -f $work/ready
            python3 $registry $work/\$published $version $work/server.pem $work/server.key $work/ready >$work/\$log.requests 2>&1 &
            registry=\$!
            until [ -e $work/ready ] || ! kill -0 \$registry; do sleep 0.02; done
            \"\$@\" >$work/\$log.log 2>&1
            status=\$?
            kill \$registry
            exit \$status
        " bash "${within[@]}" "$@"
    }
    pie=(php "/opt/pie/$(basename "$pie")" --no-interaction)

    begin=$(date +%s.%N)
    "${within[@]}" ${proxy:+"http_proxy=$proxy"} apt-get update -qq && install php8.2-cli unzip || exit
    downloaded=$(date +%s.%N)
    pie_of with archive "${pie[@]}" install fermata/ext-fermata
    result "installs the archive: $?"
    installed=$(date +%s.%N)
    pie_of with answer bash /packages/answer "$port"
    result "answer: $?"
    end=$(date +%s.%N)
    awk -v a="$begin" -v b="$downloaded" -v c="$installed" -v d="$end" "BEGIN { printf \"seconds: %.1f to install PHP, %.1f for PIE, %.1f to the first answer, %.1f in all\n\", b - a, c - b, d - c, d - a }" >>"$work/upper/packages/result"
    result "extension: $("${within[@]}" php -r "echo phpversion(\"fermata\");")"
    pie_of with show "${pie[@]}" show
    pie_of with uninstall "${pie[@]}" uninstall fermata/ext-fermata
    result "uninstalls: $? $("${within[@]}" php -m | grep -c fermata)"

    # Tools that PIE requires for a build; php8.2-dev depends on a compiler.
    install php8.2-dev make || exit
    pie_of without cargo "${pie[@]}" install fermata/ext-fermata
    result "builds without cargo: $?"
    pie_of without source env "FERMATA_CORE=/opt/core/$(basename "$core")" "${pie[@]}" install fermata/ext-fermata
    result "builds: $?"
    pie_of without built bash /packages/answer "$port"
    result "answer of what was built: $?"
' bash "$work" "$debian" "$proxy" "$(realpath "$PIE")" "$core" "$root/scripts/release/registry.py" "$version" "$port" </dev/null >"$work/log" 2>&1 || status=$?
result=$(cat "$work/upper/packages/result" 2>/dev/null || true)
has_line() { grep -qxF -- "$1" <<<"$result"; }
says() { grep -qF -- "$2" "$work/$1.log"; }
report "PIE installs what the release has" has_line 'installs the archive: 0'
report "it takes the archive for this PHP" says archive "/releases/download/$version/php_fermata-${version}_php8.2-x86_64-linux-glibc.zip"
report "it switches the extension on" says archive 'Extension is enabled and loaded'
report "a server answers" has_line 'answer: 0'
report "the extension has the release's version" has_line "extension: $version"
report "PIE lists it" says show "fermata:$version"
report "PIE removes it" has_line 'uninstalls: 0 0'
report "without an archive for this PHP it builds, and fails without cargo" has_line 'builds without cargo: 1'
# PIE wraps lines at any position, so compare without white space.
names_cargo() { tr -d '[:space:]' <"$work/cargo.log" | grep -qF 'error:cargonotfound;installRustfromhttps://rustup.rsorsetCARGO'; }
report "it says that cargo is missing" names_cargo
report "with a core that is built, it builds" has_line 'builds: 0'
report "a server of what was built answers" has_line 'answer of what was built: 0'
grep '^seconds:' <<<"$result" || true
sed -n 's/.*(PIE) \(.*\), from.*/PIE \1/p' "$work/archive.log"
if [ "$failed" != 0 ]; then
    echo "status ${status:-0}"
    tail -n 40 "$work"/*.log "$work"/*.requests "$work/upper/packages/server.log" || true
    printf '%s\n' "$result"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
