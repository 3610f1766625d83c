#!/bin/sh
# Starts the three programs in the folder of the rendered files. Pushpin takes this process's place, so a signal to
# it stops Pushpin in order; zurl and nginx end with the process group.
mkdir -p run log
zurl --config=zurl.conf >zurl.out 2>&1 &
nginx -p "$PWD" -e stderr -c "$PWD/nginx.conf" &
exec pushpin --config="$PWD/pushpin.conf"
