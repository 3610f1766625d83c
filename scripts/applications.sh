#!/usr/bin/env bash
# Unpacks a PHP application from Debian's packages into one folder with its dependencies. The result equals the upstream archive:
# unconfigured, ready for installation in a browser.
#   scripts/applications.sh dokuwiki|mediawiki|wordpress FOLDER
# Packages are downloaded and unpacked, not installed. Exits with status 3 if they cannot be downloaded.
set -euo pipefail

name=${1:?dokuwiki, mediawiki or wordpress} folder=${2:?a folder to make}
cache=${FERMATA_CACHE:-$HOME/.cache/fermata}/applications
case $name in
    dokuwiki) packages=(dokuwiki libjs-jquery libjs-jquery-ui libjs-jquery-cookie libphp-simplepie php-geshi php-phpseclib) ;;
    mediawiki) packages=(mediawiki mediawiki-classes) ;;
    wordpress) packages=(wordpress wordpress-theme-twentytwentythree libjs-cropper libjs-underscore php-getid3) ;;
    *)
        echo "applications.sh: $name is not known" >&2
        exit 2
        ;;
esac

system=$cache/$name
if [ ! -e "$system/done" ]; then
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/new-XXXXXX")
    trap 'rm -rf "$new"' EXIT
    (cd "$new" && apt-get download "${packages[@]}" >/dev/null 2>&1) ||
        { echo "applications.sh: apt-get cannot download $name" >&2; exit 3; }
    for package in "$new"/*.deb; do
        dpkg-deb -x "$package" "$new"
        rm "$package"
    done
    find "$new" -type l | while read -r link; do
        target=$(readlink "$link")
        [ ! -e "$new$target" ] || ln -sfn "$system$target" "$link"
    done
    touch "$new/done"
    # A concurrent run may have moved its result here first.
    mv -T "$new" "$system" 2>/dev/null || [ -e "$system/done" ]
fi

# Debian moves settings, data and libraries to other folders, by links and patched paths. The functions below undo that.
dokuwiki() {
    cp -r "$system/usr/share/dokuwiki" "$folder"
    rm -f "$folder"/.htaccess "$folder"/lib/tpl "$folder"/lib/plugins "$folder"/inc/preload.php
    cp -r "$system"/var/lib/dokuwiki/lib/* "$folder/lib/"
    cp -r "$system/var/lib/dokuwiki/data" "$folder/data"
    cp -r "$system/etc/dokuwiki" "$folder/conf"
    rm -f "$folder/conf/acl.auth.php" "$folder/conf/users.auth.php"
    chmod -R u+rwX "$folder"
    sed -i "s#'/var/lib/dokuwiki/data'#'./data'#" "$folder/conf/dokuwiki.php"
    grep -rlE '/usr/share/(php|php-geshi|javascript)/' "$folder" --include='*.php' | while read -r file; do
        sed -i -E "s#(\\\$vendorDir \. )?'/usr/share/(php|php-geshi|javascript)/#'$system/usr/share/\2/#g" "$file"
    done
}

mediawiki() {
    mkdir "$folder"
    # Debian's LocalSettings.php is a link to the administrator's file in /etc.
    tar -C "$system/usr/share/mediawiki" --dereference --exclude=./LocalSettings.php --exclude=./extensions-core -c . | tar -C "$folder" -x
    chmod -R u+rwX "$folder"
}

wordpress() {
    cp -rL "$system/usr/share/wordpress" "$folder"
    rm -f "$folder/.htaccess" "$folder/wp-config.php"
    cp -rL "$system/var/lib/wordpress/wp-content/." "$folder/wp-content/"
    chmod -R u+rwX "$folder"
}

"$name"
