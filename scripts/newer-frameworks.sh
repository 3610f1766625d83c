#!/usr/bin/env bash
# Unpacks Laravel 10 and Symfony 6.4 of Debian 13 for tests with the host's PHP, and prints their folder.
#   scripts/newer-frameworks.sh
# Packages are downloaded once into FERMATA_CACHE and unpacked, not installed. Exits with status 3 if they cannot be downloaded.
set -euo pipefail

suite=trixie
packages=(php-laravel-framework php-symfony-framework-bundle php-symfony-runtime php-symfony-twig-bundle php-symfony-yaml php-symfony-dotenv
    php-symfony-console php-symfony-mercure php-symfony-http-client php-symfony-psr-http-message-bridge php-laravel-serializable-closure
    php-slim php-slim-psr7 php-nyholm-psr7 php-guzzlehttp-psr7 composer)

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/debian.sh
. "$root/scripts/debian.sh"
cache=${FERMATA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fermata}
folder=$cache/frameworks-$suite
cannot() {
    echo "newer-frameworks.sh: $*" >&2
    exit 3
}

if [ "$(cat "$folder/done" 2>/dev/null)" != "${packages[*]}" ]; then
    command -v apt-get >/dev/null || cannot "there is no apt-get"
    archive=$(debian_mirror)
    [ -n "$archive" ] || cannot "apt's configuration names no Debian archive; FERMATA_DEBIAN_MIRROR names one"
    mkdir -p "$cache"
    exec 9>"$folder.lock"
    flock 9
fi
if [ "$(cat "$folder/done" 2>/dev/null)" != "${packages[*]}" ]; then
    new=$(mktemp -d "$cache/new-XXXXXX")
    trap 'rm -rf "$new"' EXIT
    # An apt configuration with this suite only, and with an empty list of installed packages.
    mkdir -p "$new/state/lists/partial" "$new/cache/archives/partial"
    touch "$new/status"
    echo "deb $archive $suite main" >"$new/sources.list"
    apt=(-o "Dir::State=$new/state" -o "Dir::State::status=$new/status" -o "Dir::Cache=$new/cache" -o "Dir::Etc::sourcelist=$new/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=)
    apt-get "${apt[@]}" update >"$new/log" 2>&1 || cannot "apt-get cannot read $archive: $(tail -n 1 "$new/log")"
    # The host provides PHP and its extensions, so only dependencies written in PHP are downloaded.
    mapfile -t needed < <(apt-get "${apt[@]}" -s install --no-install-recommends "${packages[@]}" | awk '$1 == "Inst" && $2 ~ /^(composer|php-.*)$/ { print $2 }')
    [ ${#needed[@]} -gt 0 ] || cannot "apt-get does not find ${packages[*]}"
    (cd "$new" && apt-get "${apt[@]}" download "${needed[@]}" >"$new/log" 2>&1) || cannot "apt-get cannot download: $(tail -n 1 "$new/log")"
    for package in "$new"/*.deb; do
        case $(basename "$package") in
            *_all.deb) dpkg-deb -x "$package" "$new/unpacked" ;;
        esac
    done
    # The packages refer to each other by their installed paths, so adapt these paths.
    grep -rl "'/usr/share/php/" "$new/unpacked/usr/share/php" --include='*.php' |
        xargs sed -i "s#'/usr/share/php/#'$folder/usr/share/php/#g"
    echo "${packages[*]}" >"$new/unpacked/done"
    rm -rf "$folder"
    mv -T "$new/unpacked" "$folder"
fi
echo "$folder/usr/share/php"
