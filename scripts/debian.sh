# Sourced by scripts that make a Debian, or take sources from its archive.
# shellcheck shell=bash

debian_codename() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# Where the machine itself gets Debian from, without the updates, whose sources not every copy of the archive has; nothing where
# apt's configuration names none. FERMATA_DEBIAN_MIRROR names another archive, on a machine that is no Debian.
debian_mirror() {
    if [ -n "${FERMATA_DEBIAN_MIRROR:-}" ]; then
        echo "$FERMATA_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016 # apt's variables, not the shell's
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(REPO_URI)' 2>/dev/null |
        awk -v codename="$(debian_codename)" '$1 == "Debian" && $2 == codename { print $3; exit }'
}
