#!/usr/bin/env bash
# Finds what this machine lacks for a task and installs it.
#
#   scripts/setup.sh [--dry-run] build|release|chat|cluster|test|edge|bench|docker|fuzz
#
# It looks for the programs themselves, not for packages, so a tool installed by other means counts,
# and a machine that lacks nothing is done within a tenth of a second without touching apt.
# On Debian and Ubuntu the missing packages are installed; elsewhere they are named.
# Without root, sudo asks for a password where there is a terminal; elsewhere nothing is installed, and the line to
# type is printed. --dry-run prints it in any case.
set -euo pipefail

dry_run=
task=build
for argument in "$@"; do
    case $argument in
        build | release | chat | cluster | test | edge | bench | docker | fuzz) task=$argument ;;
        --dry-run) dry_run=yes ;;
        *)
            echo "usage: scripts/setup.sh [--dry-run] build|release|chat|cluster|test|edge|bench|docker|fuzz" >&2
            exit 2
            ;;
    esac
done

root=$(cd "$(dirname "$0")/.." && pwd)
rust_version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/go/bin:/usr/sbin

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# The PHP to build for: PHP=php8.3 chooses another than the default.
php=${PHP:-php}
php_package=php
php_modules=''
if has "$php"; then
    # shellcheck disable=SC2016 # PHP's variables, not the shell's
    facts=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION, " ", (int) PHP_ZTS;')
    php_version=${facts% *}
    at_least 8.2 "$php_version" || fail "$php is PHP $php_version; Fermata needs 8.2 to 8.5. Set PHP=php8.2 to choose another."
    [ "${facts#* }" = 0 ] || fail "$php is thread-safe (ZTS); Fermata needs a PHP without threads (NTS)."
    php_package=php$php_version
    php_modules=$("$php" -m)
fi
has_module() { grep -qix "$1" <<<"$php_modules"; }

missing=()
need() { # package, then a command that succeeds when it is there
    local package=$1
    shift
    "$@" || missing+=("$package")
}

has_rust() {
    local version
    version=$(cargo --version 2>/dev/null) || return 1
    version=${version#cargo }
    at_least "$rust_version" "${version%%[ -]*}"
}

# Debian names one phpize per version, others have just one.
has_phpize() { has "phpize${php_version:-}" || { ! has apt-get && has phpize; }; }

need_build() {
    need build-essential has cc
    need build-essential has make
    need git has git
    need "$php_package-cli" has "$php"
    need "$php_package-dev" has_phpize
    need rust has_rust
}
# What a release is compiled with for other machines, and what runs that here.
need_release() {
    need_build
    need musl-tools has musl-gcc
    need gcc-aarch64-linux-gnu has aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/lib
    need qemu-user-static has qemu-aarch64-static
    need curl has curl
}
need_chat() {
    need_build
    need "$php_package-sqlite3" has_module pdo_sqlite
    need "$php_package-mbstring" has_module mbstring
}
need_load() {
    need python3 has python3
    need wrk has wrk
    need apache2-utils has ab
}
need_node() {
    # Debian's node lacks npm; other builds bring it, so ask for each.
    need nodejs has node
    need npm has npm
}
# What `fermata cluster up --proxy` starts beside the servers.
need_cluster() {
    need_chat
    need nats-server has nats-server
    need nginx-light has nginx
}
need_test() {
    need_chat
    need_load
    need_node
    need php-parser test -e /usr/share/php/PhpParser/autoload.php
    need phpunit has phpunit
    need valgrind has valgrind
    need strace has strace
    need procps has ps
    need bsdutils has script
    need curl has curl
    # Databases that the tests of hooks start for themselves, and PHP's clients.
    need mariadb-server has mariadbd
    need redis-server has redis-server
    # The log that many machines share.
    need nats-server has nats-server
    need postgresql has_postgres
    need "$php_package-mysql" has_module pdo_mysql
    need "$php_package-redis" has_module redis
    need php-predis test -e /usr/share/php/Predis/autoload.php
    # Mail and messages, by libraries in plain PHP.
    need python3-aiosmtpd /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null
    need php-symfony-mailer test -e /usr/share/php/Symfony/Component/Mailer/autoload.php
    need rabbitmq-server test -e /usr/lib/rabbitmq/bin/rabbitmq-server
    need php-amqplib test -e /usr/share/php/PhpAmqpLib/autoload.php
    # What the bridges to frameworks are tested with.
    need php-psr-http-message test -e /usr/share/php/Psr/Http/Message/autoload.php
    need php-nyholm-psr7 test -e /usr/share/php/Nyholm/Psr7/autoload.php
    need php-guzzlehttp-psr7 test -e /usr/share/php/GuzzleHttp/Psr7/autoload.php
    need php-slim-psr7 test -e /usr/share/php/Slim/Psr7/autoload.php
    need php-slim test -e /usr/share/php/Slim/App.php
    need php-symfony-framework-bundle test -e /usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php
    need php-symfony-twig-bundle test -e /usr/share/php/Symfony/Bundle/TwigBundle/autoload.php
    need php-symfony-runtime test -e /usr/share/php/Symfony/Component/Runtime/autoload.php
    need php-symfony-console test -e /usr/share/php/Symfony/Component/Console/autoload.php
    need php-symfony-dotenv test -e /usr/share/php/Symfony/Component/Dotenv/autoload.php
    need php-symfony-http-foundation test -e /usr/share/php/Symfony/Component/HttpFoundation/autoload.php
    need php-symfony-mercure test -e /usr/share/php/Symfony/Component/Mercure/autoload.php
    need php-symfony-mime test -e /usr/share/php/Symfony/Component/Mime/autoload.php
    need php-symfony-yaml test -e /usr/share/php/Symfony/Component/Yaml/autoload.php
    need php-laravel-framework test -e /usr/share/php/Illuminate/autoload.php
    need "$php_package-pgsql" has_module pdo_pgsql
    need "$php_package-curl" has_module curl
    # What stands before servers, speaking the PROXY protocol.
    need haproxy has haproxy
    need libnginx-mod-stream test -e /usr/lib/nginx/modules/ngx_stream_module.so
    # What stands behind the edge.
    need nginx-light has nginx
    need "$php_package-fpm" has "php-fpm${php_version:-}"
    need xdebug has_xdebug
    need shellcheck has shellcheck
    # What lint and the site take from PyPI.
    need python3-pip has_pip
    need python3-venv has_venv
    need chromium has chromium
    need firefox-esr has firefox-esr
    # A client of HTTP/2 that loads.
    need nghttp2-client has h2load
    need rustfmt has rustfmt
    need clippy has cargo-clippy
    # Where the extension is tested with another PHP: that of a Debian in a folder, and one compiled from its source.
    need debootstrap has debootstrap
    need libsqlite3-dev test -e /usr/include/sqlite3.h
    need libssl-dev test -e /usr/include/openssl/ssl.h
    need libxml2-dev has xml2-config
    need libcurl4-openssl-dev has curl-config
    need zlib1g-dev test -e /usr/include/zlib.h
    need pkg-config has pkg-config
}
has_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || has initdb; }
# Debian's package loads Xdebug into every PHP of the machine, which slows all of them: only its file is taken.
xdebug_file() { "$php" -n -r 'echo "'"$root"'/build/xdebug/", basename(PHP_EXTENSION_DIR), ".so";'; }
has_xdebug() {
    ! has "$php" || test -f "$(xdebug_file)" || ! has apt-get || ! apt-cache show "$php_package-xdebug" >/dev/null 2>&1
}
install_xdebug() {
    local folder
    say "unpacking $php_package-xdebug to build/xdebug"
    folder=$(mktemp -d)
    # A test is skipped without it, so this is no reason to fail.
    if (cd "$folder" && apt-get download "$php_package-xdebug" >/dev/null 2>&1 && dpkg-deb -x ./*.deb .); then
        mkdir -p "$root/build/xdebug"
        find "$folder" -name xdebug.so -exec cp {} "$(xdebug_file)" \;
    fi
    rm -rf "$folder"
}
# The programs that the edge is tested with. Most of them begin to serve when their packages are installed, so a test
# that lacks one is skipped instead of installing it; CI asks for all.
need_edge() {
    need_test
    need_release
    need apache2-bin has apache2
    need "libapache2-mod-$php_package" test -e "/usr/lib/apache2/modules/libphp${php_version:-}.so"
    need openssl has openssl
    need systemd has systemd-analyze
    # What the packages of a release are checked with.
    need lintian has lintian
    need logrotate has logrotate
    need iproute2 has ip
    need pushpin has pushpin
    need zurl has zurl
}
has_venv() { python3 -c "import ensurepip, venv" >/dev/null 2>&1; }
has_pip() { python3 -m pip --version >/dev/null 2>&1; }
need_bench() {
    need_chat
    need_load
    need nginx-light has nginx
    need haproxy has haproxy
    need nodejs has node
    need golang-go has go
    need default-jdk-headless has javac
    need valgrind has valgrind
    need strace has strace
    # Only the server, without the package that starts one as a service.
    need apache2-bin has apache2
    need "libapache2-mod-$php_package" test -e "/usr/lib/apache2/modules/libphp${php_version:-}.so"
    need "$php_package-fpm" has "php-fpm${php_version:-}"
}
# What an image is built with, without Docker.
need_docker() {
    need buildah has buildah
    need debootstrap has debootstrap
    need procps has ps
    need python3 has python3
    need curl has curl
    need "$php_package-cli" has "$php"
    need rust has_rust
}
has_nightly() { cargo +nightly --version >/dev/null 2>&1; }
need_fuzz() {
    need_build
    need nightly-rust has_nightly
}

# Rust is often installed by rustup, and Debian's own may be too old: find the package that fits. Nothing = there is none.
rust_package() {
    local package version
    # Debian keeps a current compiler beside its own for building browsers: cargo-web.
    for package in cargo cargo-web $(apt-cache pkgnames cargo-1. | sort -rV) rustup; do
        version=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
        case $package:$version in
            *: | *:'(none)') continue ;;
            cargo:* | cargo-web:*) at_least "$rust_version" "${version%%[+~-]*}" || continue ;;
            cargo-1.*) at_least "$rust_version" "${package#cargo-}" || continue ;;
        esac
        echo "$package"
        return
    done
}

# The package of rustfmt or clippy that belongs to a package of cargo.
component_package() { # component, package of cargo
    case $2:$1 in
        cargo-web:rustfmt) echo rustfmt-web ;;
        cargo-web:clippy) echo rust-web-clippy ;;
        *:rustfmt) echo rustfmt ;;
        *:clippy) echo rust-clippy ;;
    esac
}

# What is left to do after apt has installed it.
finish_rust() { # package of cargo
    if [ "$1" = rustup ]; then
        rustup default stable
    elif [[ $1 == cargo-1.* ]] && ! has cargo; then
        # Ubuntu's versioned packages install /usr/bin/cargo-1.89 only.
        as_root ln -s "/usr/bin/$1" /usr/local/bin/cargo
        as_root ln -s "/usr/bin/rustc-${1#cargo-}" /usr/local/bin/rustc
    fi
}

can_be_root() { [ "$(id -u)" = 0 ] || { has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        # On a terminal it asks for the password.
        sudo "$@"
    fi
}

# apt does not wait for another that holds its lists or archives, and only if asked for one that installs. Machines that have
# just started run one in the background.
apt() { # a log, then arguments of apt-get
    local log=$1 deadline=$((SECONDS + ${FERMATA_APT_WAIT_S:-600})) status told=
    shift
    while true; do
        status=0
        # A progress line per package; the rest is shown when it fails.
        as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@" </dev/null 2>&1 |
            tee "$log" | sed -un 's/^Setting up \([^ ]*\) \(.*\) .*/setup:   \1 \2/p' >&2 || status=$?
        if [ "$status" = 0 ] || ! grep -qE 'Could not get lock|Unable to (acquire|lock)' "$log" || [ "$SECONDS" -ge "$deadline" ]; then
            return "$status"
        fi
        [ -n "$told" ] || say "another apt runs; waiting until it has ended"
        told=yes
        sleep "${FERMATA_APT_PAUSE_S:-3}"
    done
}

# apt's lists are fetched once per run, and only when something is missing.
apt_updated=
apt_update() {
    [ -z "$apt_updated" ] || return 0
    say "updating apt's package lists"
    local log
    log=$(mktemp)
    # Without some of the lists the packages may still be found.
    apt "$log" update -qq || cat "$log" >&2
    rm -f "$log"
    apt_updated=1
}
apt_install() {
    apt_update
    say "installing $*"
    local log
    log=$(mktemp)
    if ! apt "$log" install -y --no-install-recommends "$@"; then
        cat "$log" >&2
        rm -f "$log"
        fail "apt could not install $*"
    fi
    rm -f "$log"
}

"need_$task"
if [ ${#missing[@]} -eq 0 ]; then
    [ -z "$dry_run" ] || say "nothing is missing for '$task'"
    exit 0
fi

# The first need of a package may stand twice (cc and make).
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | awk '!seen[$0]++')
say "missing for '$task': ${missing[*]}"
if ! has apt-get; then
    fail "this is not Debian or Ubuntu: install the above (names are Debian's; rust means cargo and rustc $rust_version or later), then run this again."
fi
if [ -z "$dry_run" ] && can_be_root; then
    apt_update
fi

cargo_package=''
packages=()
commands=()
with_xdebug=
for package in "${missing[@]}"; do
    case $package in
        rust)
            if has rustup; then
                commands+=("rustup toolchain install stable --profile minimal --no-self-update" "rustup default stable")
            else
                cargo_package=$(rust_package)
                [ -n "$cargo_package" ] ||
                    fail "this system has no Rust of at least $rust_version. Install rustup as https://rustup.rs says, then run this again."
                packages+=("$cargo_package")
                commands+=("finish_rust $cargo_package")
            fi
            ;;
        rustfmt | clippy)
            if has rustup || [ "$cargo_package" = rustup ]; then
                commands+=("rustup component add $package")
            else
                [ -n "$cargo_package" ] || cargo_package=$(dpkg -S "$(command -v cargo)" 2>/dev/null | sed 's/:.*//')
                packages+=("$(component_package "$package" "$cargo_package")")
            fi
            ;;
        nightly-rust)
            has rustup || fail "fuzzing needs a nightly Rust: install rustup as https://rustup.rs says, then run this again."
            commands+=("rustup toolchain install nightly --profile minimal --no-self-update")
            ;;
        xdebug) with_xdebug=yes ;;
        *) packages+=("$package") ;;
    esac
done

if [ ${#packages[@]} -gt 0 ]; then
    if [ -n "$dry_run" ] || ! can_be_root; then
        say "to install it, type:"
        sudo=''
        [ "$(id -u)" = 0 ] || sudo='sudo '
        echo "${sudo}apt-get update && ${sudo}apt-get install -y --no-install-recommends ${packages[*]}"
    else
        apt_install "${packages[@]}"
    fi
fi
if [ -n "$dry_run" ]; then
    for command in "${commands[@]}"; do
        case $command in rustup*) echo "$command" ;; esac
    done
    exit 0
fi
[ ${#packages[@]} -eq 0 ] || can_be_root || fail "nothing was installed: root is needed, and nobody can be asked for a password"
for command in "${commands[@]}"; do
    $command
done
[ -z "$with_xdebug" ] || install_xdebug
say "done"
