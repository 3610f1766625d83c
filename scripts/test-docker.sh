#!/usr/bin/env bash
# Builds packaging/docker/Dockerfile unchanged and tests the image: a request, a killed worker, a stop.
#
#   scripts/test-docker.sh                 release profile, as in `docker build`; slow on two cores
#   PROFILE=quick scripts/test-docker.sh   compiles the Rust code with little optimisation; all else is equal
#
# No image registry is used. Substitutes for the base images are built once below FERMATA_CACHE:
#   php:8.2-cli            Debian 12 with PHP compiled from Debian's source, with the flags and paths of the official image, and
#                          substitutes for its docker-php-ext-* scripts
#   rust:1-slim-bookworm   Debian 12 with this machine's Rust
# The test therefore covers the Dockerfile and its result, not the official base images. buildah builds the image. unshare replaces
# `docker run`: separate process and network namespaces; the image's user, folder, environment, entry point and command; the
# server as process 1. Docker's seccomp profile, limits and published ports are not covered.
#
# Needs root. Dockerfile.alpine is not tested: it needs Alpine's packages.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
profile=${PROFILE:-release}
# Version of the substitute images. Increment it to rebuild them.
recipe=1
start_s_max=30
stop_s_max=15
# shellcheck source=scripts/report.sh
. scripts/report.sh
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/sbin
say() { printf 'test-docker: %s\n' "$*" >&2; }
cannot() {
    say "the image was NOT BUILT: $*"
    [ -z "${CI:-}" ]
    exit
}
case $profile in release | quick) ;; *) say "PROFILE is release or quick"; exit 2 ;; esac
[ "$(id -u)" = 0 ] || cannot "this needs root"
unshare --mount --pid --net --fork true 2>/dev/null || cannot "this machine allows no namespaces"
scripts/setup.sh docker
for tool in buildah debootstrap rustc python3 curl; do
    command -v "$tool" >/dev/null || cannot "$tool is not installed"
done

mkdir -p "$cache"
exec 8>"$cache/containers.lock"
flock 8
export BUILDAH_ISOLATION=chroot
store=(--root "$cache/containers" --runroot "$cache/containers-run" --storage-driver overlay)
run() { buildah "${store[@]}" "$@" 8>&-; }
work=$(mktemp -d /var/tmp/fermata-docker-XXXXXX)
# Process id of `unshare`. Its only child is process 1 of the container, which dies with it.
server=
init() { pgrep -P "$server" 2>/dev/null; }
finish() {
    if [ -n "$server" ]; then
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    # Only this script uses that container store, one run at a time. So remove all containers. The substitute images stay.
    run rm --all >/dev/null 2>&1 || true
    run rmi localhost/fermata:test >/dev/null 2>&1 || true
    run rmi --prune >/dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Starts a substitute image from a Debian that trusts this machine's certificates.
begin() { # sets $folder to the container's root folder and $container to its name
    [ -e "$debian/etc/debian_version" ] || { why=$(debian_12 "$debian") || cannot "$why"; }
    container=$(run from scratch)
    folder=$(run mount "$container")
    cp -a "$debian/." "$folder/"
}
inside() { # script
    run run --env DEBIAN_FRONTEND=noninteractive "$container" -- sh -ec "$1" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }
    cp -L --remove-destination "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$folder/etc/ssl/certs/ca-certificates.crt"
}
end() { # image, version of its contents
    run config --label "made-of=$2" "$container"
    run commit --quiet --rm "$container" "$1" >/dev/null
}
is_made_of() {
    [ "$(run inspect --type image --format '{{index .OCIv1.Config.Labels "made-of"}}' "$1" 2>/dev/null)" = "$2" ]
}

debian=$cache/bookworm
sources=$(scripts/source-php.sh --source) && [ -n "$sources" ] || cannot "there is no source of PHP"
version=$(sed -n 's/^#define PHP_VERSION "\(.*\)"/\1/p' "$sources/main/php_version.h")
php=${version%.*}
rust=$(rustc --version)

if ! is_made_of "localhost/php:$php-cli" "$recipe $version"; then
    SECONDS=0
    begin
    mkdir -p "$folder/usr/src"
    cp -a "$sources" "$folder/usr/src/php"
    # PHPIZE_DEPS stay installed, as in the official image. Packages that only PHP's own build needs are removed.
    inside 'headers="libsqlite3-dev libssl-dev zlib1g-dev libcurl4-openssl-dev libxml2-dev libonig-dev libreadline-dev"
        apt-get update -qq
        apt-get install -qq -y --no-install-recommends autoconf dpkg-dev file g++ gcc libc-dev make pkg-config re2c ca-certificates curl xz-utils $headers
        mkdir -p /usr/local/etc/php/conf.d /tmp/build
        cd /tmp/build
        export CFLAGS="-fstack-protector-strong -fpic -fpie -O2 -D_LARGEFILE_SOURCE -D_FILE_OFFSET_BITS=64" LDFLAGS="-Wl,-O1 -pie"
        /usr/src/php/configure --quiet --enable-option-checking=fatal --with-config-file-path=/usr/local/etc/php \
            --with-config-file-scan-dir=/usr/local/etc/php/conf.d --with-mhash --with-pic --enable-mbstring --enable-mysqlnd \
            --with-pdo-sqlite=/usr --with-sqlite3=/usr --with-curl --with-iconv --with-openssl --with-readline --with-zlib --disable-phpdbg --disable-cgi
        make --quiet -j"$(nproc)"
        make --quiet install
        find /usr/local -type f -perm -0100 -exec strip --strip-all {} + || true
        cd / && rm -rf /tmp/build
        apt-get purge -qq -y $headers
        rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
        php --version'
    cat >"$folder/usr/local/bin/docker-php-ext-enable" <<'ENABLE'
#!/bin/sh
set -e
for name; do
    case $name in opcache) key=zend_extension ;; *) key=extension ;; esac
    test -e "$(php-config --extension-dir)/$name.so"
    echo "$key=$name" >"/usr/local/etc/php/conf.d/docker-php-ext-$name.ini"
done
ENABLE
    # Compiling is unnecessary, because PHP's own build has compiled the extension. So the script only enables it.
    printf '#!/bin/sh\nexec docker-php-ext-enable "$@"\n' >"$folder/usr/local/bin/docker-php-ext-install"
    chmod +x "$folder"/usr/local/bin/docker-php-ext-*
    run config --env PHPIZE_DEPS='autoconf dpkg-dev file g++ gcc libc-dev make pkg-config re2c' --env PHP_INI_DIR=/usr/local/etc/php \
        --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --cmd 'php -a' "$container"
    end "localhost/php:$php-cli" "$recipe $version"
    say "made a stand-in for php:$php-cli, PHP $version, in $SECONDS s"
fi
if ! is_made_of localhost/rust:1-slim-bookworm "$recipe $rust"; then
    SECONDS=0
    begin
    mkdir -p "$folder/usr/local/rust" "$folder/usr/local/cargo"
    # Skip the documentation, which is half of the toolchain.
    tar -C "$(rustc --print sysroot)" --exclude=./share -c . | tar -x -C "$folder/usr/local/rust"
    inside 'apt-get update -qq
        apt-get install -qq -y --no-install-recommends ca-certificates gcc libc6-dev
        rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb'
    run config --env CARGO_HOME=/usr/local/cargo --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
    end localhost/rust:1-slim-bookworm "$recipe $rust"
    say "made a stand-in for rust:1-slim-bookworm, $rust, in $SECONDS s"
fi

# Copy only tracked files, as in a fresh clone.
mkdir "$work/clone"
git archive HEAD | tar -x -C "$work/clone"
if [ "$profile" = quick ]; then
    printf '[profile.release]\nopt-level = 1\nlto = "off"\ncodegen-units = 16\ndebug = 0\n' >>"$work/clone/.cargo/config.toml"
fi
builds() {
    run bud --pull=never --no-cache --force-rm --build-arg "PHP=$php" -f "$work/clone/packaging/docker/Dockerfile" -t localhost/fermata:test "$work/clone" >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log"; return 1; }
}
SECONDS=0
report "packaging/docker/Dockerfile is built" builds
[ "$failed" = 0 ] || { echo "$passed passed, $failed failed"; exit 1; }
say "built with Rust's profile $profile in $SECONDS s"

run inspect --type image localhost/fermata:test >"$work/image.json"
# Prints a value of the image's configuration: a string as one line, a list as one line per item.
config() {
    python3 - "$work/image.json" "$1" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))["OCIv1"]["config"].get(sys.argv[2], [])
print(value if isinstance(value, str) else "\n".join(value))
PYTHON
}
user=$(config User)
directory=$(config WorkingDir)
mapfile -t environment < <(config Env)
mapfile -t command < <(config Entrypoint; config Cmd)
echo "user $user, folder $directory, command ${command[*]}"
is_unprivileged() { [ "$user" = www-data ] && [ "$(config StopSignal)" = SIGTERM ] && [ "$(config ExposedPorts)" = 8080/tcp ]; }
report "it runs as www-data, exposes port 8080 and is stopped by SIGTERM" is_unprivileged

container=$(run from --pull=never localhost/fermata:test)
folder=$(run mount "$container")
has_no_tools() { [ ! -e "$folder/src" ] && [ ! -e "$folder/ext" ] && [ ! -e "$folder/tmp/fermata.so" ] && [ ! -e "$folder/usr/local/rust" ]; }
report "nothing of the build is left in it" has_no_tools
# Docker creates the working folder; buildah does not.
mkdir -p "$folder$directory"
cat >"$folder$directory/server.php" <<'PHP'
<?php
use Fermata\{Channel, Hold, Request, Response, Server};

$server = new Server(workers: 2);
$server->get('/', fn () => Response::json([
    'user' => posix_getpwuid(posix_geteuid())['name'],
    'folder' => getcwd(),
    'opcache' => opcache_get_status(false)['opcache_enabled'] ?? false,
    'jit' => opcache_get_status(false)['jit']['on'] ?? false,
    'memory' => ini_get('memory_limit'),
    'version' => PHP_VERSION,
]));
$server->get('/events', fn (Request $request) => Hold::sse('room')->since($request->lastEventId()));
$server->post('/messages', function (Request $request): Response {
    Channel::get('room')->publish($request->body());
    return Response::accepted();
});
// Its child outlives it, so that process 1 inherits it.
$server->post('/orphan', fn () => Response::text((string) shell_exec('sleep 0.3 >/dev/null 2>&1 & echo begun')));
$server->run();
PHP

# In a separate network namespace the server can listen on the image's own address.
# shellcheck disable=SC2016 # for the inner shells
unshare --mount --pid --net --ipc --uts --fork --kill-child --propagation private bash -euc '
    folder=$1 user=$2 directory=$3
    shift 3
    mount -t proc proc "$folder/proc"
    mount -t tmpfs -o mode=755 tmpfs "$folder/dev"
    for device in null zero full random urandom; do
        : >"$folder/dev/$device"
        mount --bind "/dev/$device" "$folder/dev/$device"
    done
    mkdir "$folder/dev/shm"
    mount -t tmpfs tmpfs "$folder/dev/shm"
    ln -s /proc/self/fd "$folder/dev/fd"
    python3 -c "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh\", b\"lo\", 1))"
    exec chroot --userspec="$user:$user" "$folder" /usr/bin/env -i --chdir="$directory" "$@"
' bash "$folder" "$user" "$directory" "${environment[@]}" "${command[@]}" </dev/null >"$work/server.log" 2>&1 8>&- &
server=$!
# Requests come from outside the container, but in its network namespace.
ask() { nsenter --target "$(init)" --net curl -sf --max-time 10 "$@"; }
address=http://127.0.0.1:8080
shows_log() { tail -n 20 "$work/server.log"; return 1; }

answers() {
    for _ in $(seq $((start_s_max * 10))); do
        kill -0 "$server" 2>/dev/null || break
        if ask "$address/" >"$work/answer" 2>/dev/null; then break; fi
        sleep 0.1
    done
    [ -s "$work/answer" ] || shows_log || return
    cat "$work/answer" && echo
    python3 - "$work/answer" "$1" "$directory" <<'PYTHON' || shows_log
import json, sys
answer = json.load(open(sys.argv[1]))
expected = {"user": "www-data", "folder": sys.argv[3], "opcache": True, "jit": True, "memory": "128M", "version": sys.argv[2]}
assert answer == expected, f"{answer} is not {expected}"
PYTHON
}
report "it serves as www-data, with OPcache, its JIT and PHP's memory limit" answers "$version"
is_process_1() { [ "$(awk '/^NSpid:/ { print $NF }' "/proc/$(init)/status")" = 1 ]; }
report "the server is process 1" is_process_1
streams() {
    ask --no-buffer --max-time 20 "$address/events" >"$work/stream" 2>/dev/null &
    local reader=$!
    for _ in $(seq 50); do
        ask -X POST --data 'to all' "$address/messages" >/dev/null || true
        if grep -q '^data: *to all' "$work/stream"; then break; fi
        sleep 0.2
    done
    kill "$reader" 2>/dev/null || true
    wait "$reader" 2>/dev/null || true
    grep -q '^data: *to all' "$work/stream" || { cat "$work/stream"; shows_log; }
}
report "a stream gets what is published" streams
workers() { pgrep -P "$(init)" | sort; }
zombies() { pgrep -r Z -P "$(init)"; }
replaces() {
    local before victim
    before=$(workers)
    victim=$(head -n 1 <<<"$before")
    kill -KILL "$victim"
    for _ in $(seq 100); do
        if ! kill -0 "$victim" 2>/dev/null && [ "$(workers | wc -l)" = "$(wc -l <<<"$before")" ] && ask "$address/" >/dev/null; then return; fi
        sleep 0.1
    done
    echo "before: $before; after: $(workers)"
    shows_log
}
report "a worker that is killed is reaped and replaced" replaces
reaps() {
    [ "$(ask -X POST "$address/orphan")" = begun ] || shows_log || return
    pgrep -P "$(init)" -x sleep >/dev/null || { echo "process 1 has not inherited it"; return 1; }
    for _ in $(seq 50); do
        sleep 0.1
        if [ -z "$(pgrep -P "$(init)" -x sleep)" ] && [ -z "$(zombies)" ]; then return; fi
    done
    echo "dead and not reaped: $(zombies | wc -l)"
    shows_log
}
report "the child of a command that has ended is reaped" reaps
doctor() {
    # The checks before a start, on another port because the server runs.
    nsenter --target "$(init)" --mount --net --pid chroot --userspec="$user:$user" "$folder" /usr/bin/env -i --chdir="$directory" "${environment[@]}" \
        fermata doctor --listen http://127.0.0.1:8099 >"$work/doctor" 2>&1 || { cat "$work/doctor"; return 1; }
}
report "fermata doctor finds nothing bad" doctor
stops() {
    local begin=$SECONDS
    ask --no-buffer --max-time 60 "$address/events" >"$work/held" 2>/dev/null &
    local reader=$!
    sleep 0.5
    kill -TERM "$(init)"
    while kill -0 "$server" 2>/dev/null && [ $((SECONDS - begin)) -lt "$stop_s_max" ]; do sleep 0.1; done
    kill "$reader" 2>/dev/null || true
    wait "$reader" 2>/dev/null || true
    if kill -0 "$server" 2>/dev/null; then
        echo "it runs after $stop_s_max s"
        shows_log
        return
    fi
    local status=0
    wait "$server" || status=$?
    server=
    tail -n 1 "$work/server.log"
    [ "$status" = 0 ] && tail -n 1 "$work/server.log" | grep -q 'stopped$' || { echo "status $status"; shows_log; }
}
report "SIGTERM stops it within $stop_s_max s while a client is held" stops
finished=$(run images --format '{{.Size}}' localhost/fermata:test)
echo "the image has $finished; Rust's profile was $profile"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
