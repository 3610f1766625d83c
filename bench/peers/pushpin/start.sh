#!/bin/sh
# Starts Pushpin, zurl and nginx in the folder of the rendered files. Pushpin replaces this process, so a signal to it
# stops Pushpin cleanly. zurl and nginx are killed with the process group.
mkdir -p run log
zurl --config=zurl.conf >zurl.out 2>&1 &
nginx -p "$PWD" -e stderr -c "$PWD/nginx.conf" &
exec pushpin --config="$PWD/pushpin.conf"
