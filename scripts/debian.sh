# Sourced by scripts that create a Debian root folder or download sources from Debian's archive.
# shellcheck shell=bash

debian_codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# Prints the address of the Debian archive in apt's configuration, or nothing if there is none. Skips the updates, because some
# mirrors lack their sources. FERMATA_DEBIAN_MIRROR overrides the address, for machines that do not run Debian.
debian_mirror() {
    if [ -n "${FERMATA_DEBIAN_MIRROR:-}" ]; then
        echo "$FERMATA_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016 # apt's variables, not the shell's
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 2>/dev/null |
        awk -v codename="$(debian_codename)" '$1 == "Debian" && $2 == codename { print $3; exit }'
}

# Creates a Debian 12 in FOLDER unless it exists: by debootstrap as root, 170 MB, one minute. On failure prints the reason.
debian_12() { # folder
    (
        exec 9>"$1.lock"
        flock 9
        [ ! -e "$1/etc/fermata-packages" ] || exit 0
        archive=$(debian_mirror)
        [ -n "$archive" ] || { echo "apt's configuration names no Debian archive; FERMATA_DEBIAN_MIRROR names one"; exit 1; }
        if command -v apt-config >/dev/null; then
            proxy=
            eval "$(apt-config shell proxy Acquire::http::Proxy)"
            [ -z "$proxy" ] || export http_proxy=$proxy
        fi
        rm -rf --one-file-system "$1" "$1.new"
        debootstrap --variant=minbase bookworm "$1.new" "$archive" >"$1.log" 2>&1 ||
            { tail -n 20 "$1.log"; echo "debootstrap has failed"; exit 1; }
        rm -rf "$1.new/var/cache/apt/archives"/*.deb
        : >"$1.new/etc/fermata-packages"
        mv "$1.new" "$1"
    )
}

# Writes to TOOLS a phpize and a php-config for a PHP in a folder: copies with /usr replaced by the folder. php_binary becomes
# `true`, because that PHP may not run here and the build would use it to regenerate fermata_arginfo.h.
tools_of_root() { # folder, version of PHP, TOOLS
    mkdir -p "$3"
    # autoconf's macros must match the host's libtool.
    sed "s|^prefix='/usr'|prefix='$1/usr'|; s|^aclocaldir=.*|aclocaldir=/usr/share/aclocal|" "$1/usr/bin/phpize$2" >"$3/phpize"
    sed "s|^prefix=\"/usr\"|prefix=\"$1/usr\"|; s|^\( *php_binary=\).*|\1true|" "$1/usr/bin/php-config$2" >"$3/php-config"
    chmod +x "$3/phpize" "$3/php-config"
}
