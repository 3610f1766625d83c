#!/usr/bin/env bash
# Finds the packages that a task needs and this machine lacks, and installs them.
#
#   scripts/setup.sh [--dry-run] build|release|chat|cluster|test|edge|bench|docker|fuzz
#
# The script looks for commands and files, not for packages, so tools installed by other means count. If nothing is missing, it
# takes a tenth of a second and does not run apt. On Debian and Ubuntu it installs the missing packages; elsewhere it lists them.
# Without root, sudo asks for a password on a terminal. Without a terminal, the script only prints the command to run.
# --dry-run always only prints that command.
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

# phpize's Makefiles and libtool split paths at spaces.
case $root in *[[:space:]]*) fail "the path of this checkout has a space: $root; move it, because PHP's build tools split paths at spaces" ;; esac
# A dry run writes nothing, so the checkout need not be writable then.
[ -n "$dry_run" ] || [ -w "$root" ] || fail "$root cannot be written by $(id -un 2>/dev/null || id -u), and the build writes build/ and target/ there; change its owner or clone again"

# The PHP to build for; PHP=php8.3 selects another.
php=${PHP:-php}
php_package=php
php_modules=''
if ! has "$php" && [ "$php" != php ]; then
    case $php in
        php[0-9].[0-9]*) php_package=$php ;;
        *) fail "PHP=$php: there is no such program; set PHP to one that is installed" ;;
    esac
    if has apt-cache && [ -z "$(apt-cache policy "$php_package-cli" | sed -n 's/^ *Candidate: //p' | grep -v '(none)')" ]; then
        fail "PHP=$php: it is not installed, and apt has no $php_package-cli; set PHP to one that is installed"
    fi
fi
if has "$php"; then
    # shellcheck disable=SC2016 # PHP's variables, not the shell's
    php_version=$("$php" -n -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')
    at_least 8.2 "$php_version" || fail "$php is PHP $php_version; Fermata needs 8.2 to 8.5. Set PHP=php8.2 to choose another."
    php_package=php$php_version
    php_modules=$("$php" -m)
fi
has_module() { grep -qix "$1" <<<"$php_modules"; }

missing=()
need() { # package, then a command that succeeds if it is installed
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

# Debian has one phpize per PHP version. Other systems have only one phpize.
has_phpize() { has "phpize${php_version:-}" || { ! has apt-get && has phpize; }; }

need_build() {
    need build-essential has cc
    need build-essential has make
    need git has git
    need "$php_package-cli" has "$php"
    need "$php_package-dev" has_phpize
    need rust has_rust
}
# Cross compilers of a release, and the emulator that runs their results.
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
    # Debian's nodejs package lacks npm, but other builds include it. So check both.
    need nodejs has node
    need npm has npm
}
# Processes that `fermata cluster up --proxy` starts in addition to the servers.
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
    # Databases that the tests of hooks start, and PHP's clients for them.
    need mariadb-server has mariadbd
    need redis-server has redis-server
    # The log of a cluster.
    need nats-server has nats-server
    need postgresql has_postgres
    need "$php_package-mysql" has_module pdo_mysql
    need "$php_package-redis" has_module redis
    need php-predis test -e /usr/share/php/Predis/autoload.php
    # Mail and messaging libraries written in PHP.
    need python3-aiosmtpd /usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null
    need php-symfony-mailer test -e /usr/share/php/Symfony/Component/Mailer/autoload.php
    need rabbitmq-server test -e /usr/lib/rabbitmq/bin/rabbitmq-server
    need php-amqplib test -e /usr/share/php/PhpAmqpLib/autoload.php
    # Libraries for the tests of the framework bridges.
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
    # Proxies in front of servers that send the PROXY protocol.
    need haproxy has haproxy
    need libnginx-mod-stream test -e /usr/lib/nginx/modules/ngx_stream_module.so
    # Origins behind the edge.
    need nginx-light has nginx
    need "$php_package-fpm" has "php-fpm${php_version:-}"
    need xdebug has_xdebug
    need shellcheck has shellcheck
    # Lint and the site install packages from PyPI.
    need python3-pip has_pip
    need python3-venv has_venv
    need chromium has chromium
    need firefox-esr has firefox-esr
    # HTTP/2 load generator.
    need nghttp2-client has h2load
    need rustfmt has rustfmt
    need clippy has cargo-clippy
    # For tests with another PHP: in a Debian root folder, or compiled from source.
    need debootstrap has debootstrap
    need libsqlite3-dev test -e /usr/include/sqlite3.h
    need libssl-dev test -e /usr/include/openssl/ssl.h
    need libxml2-dev has xml2-config
    need libcurl4-openssl-dev has curl-config
    need zlib1g-dev test -e /usr/include/zlib.h
    need pkg-config has pkg-config
}
has_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || has initdb; }
# Debian's package would load Xdebug into every PHP process of the machine and slow it down, so only xdebug.so is unpacked.
xdebug_file() { "$php" -n -r 'echo "'"$root"'/build/xdebug/", basename(PHP_EXTENSION_DIR), ".so";'; }
has_xdebug() {
    ! has "$php" || test -f "$(xdebug_file)" || ! has apt-get || ! apt-cache show "$php_package-xdebug" >/dev/null 2>&1
}
install_xdebug() {
    local folder
    say "unpacking $php_package-xdebug to build/xdebug"
    folder=$(mktemp -d)
    # Ignore failures, because without Xdebug only one test is skipped.
    if (cd "$folder" && apt-get download "$php_package-xdebug" >/dev/null 2>&1 && dpkg-deb -x ./*.deb .); then
        mkdir -p "$root/build/xdebug"
        find "$folder" -name xdebug.so -exec cp {} "$(xdebug_file)" \;
    fi
    rm -rf "$folder"
}
# Servers that the tests of the edge use. Most of these packages start a service when installed, so local runs skip tests whose
# server is missing; CI installs them all.
need_edge() {
    need_test
    need_release
    need apache2-bin has apache2
    need "libapache2-mod-$php_package" test -e "/usr/lib/apache2/modules/libphp${php_version:-}.so"
    need openssl has openssl
    need systemd has systemd-analyze
    # Tools that check the packages of a release.
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
    # Only the executable, without the package that starts a service.
    need apache2-bin has apache2
    need "libapache2-mod-$php_package" test -e "/usr/lib/apache2/modules/libphp${php_version:-}.so"
    need "$php_package-fpm" has "php-fpm${php_version:-}"
}
# Builds images without Docker.
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

# Prints the package with a recent enough Rust, or nothing if there is none. Debian's own Rust may be too old.
rust_package() {
    local package version
    # Debian also packages a current compiler for building browsers: cargo-web.
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

# Prints the package of rustfmt or clippy that matches a cargo package.
component_package() { # component, package of cargo
    case $2:$1 in
        cargo-web:rustfmt) echo rustfmt-web ;;
        cargo-web:clippy) echo rust-web-clippy ;;
        *:rustfmt) echo rustfmt ;;
        *:clippy) echo rust-clippy ;;
    esac
}

# Completes the installation after apt.
finish_rust() { # package of cargo
    if [ "$1" = rustup ]; then
        rustup default stable
    elif [[ $1 == cargo-1.* ]] && ! has cargo; then
        # Ubuntu's versioned packages install only versioned commands, such as /usr/bin/cargo-1.89.
        as_root ln -s "/usr/bin/$1" /usr/local/bin/cargo
        as_root ln -s "/usr/bin/rustc-${1#cargo-}" /usr/local/bin/rustc
    fi
}

can_be_root() { [ "$(id -u)" = 0 ] || { has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        # On a terminal, sudo asks for the password.
        sudo "$@"
    fi
}

# Runs apt-get, and retries while another apt holds a lock. DPkg::Lock::Timeout does not cover the locks of lists and archives.
# A freshly started machine often runs apt in the background.
apt() { # log file, then arguments of apt-get
    local log=$1 deadline=$((SECONDS + ${FERMATA_APT_WAIT_S:-600})) status told=
    shift
    while true; do
        status=0
        # Print one progress line per package. If apt fails, print its complete output.
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

# Fetches apt's lists at most once per run, and only if a package is missing.
apt_updated=
apt_update() {
    [ -z "$apt_updated" ] || return 0
    say "updating apt's package lists"
    local log
    log=$(mktemp)
    # Continue on failure: the packages may be in the lists that were fetched.
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

# Remove duplicates, because several tools may need the same package (cc and make).
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
