#!/bin/sh
# `start.sh PHP-FPM [OPTION...]` starts PHP-FPM and nginx in the folder of the rendered files. nginx replaces this process, so a
# signal to it stops nginx cleanly. PHP-FPM is killed with the process group.
rm -f fpm.sock
"$@" --nodaemonize --allow-to-run-as-root --fpm-config "$PWD/fpm.conf" &
while [ ! -S fpm.sock ]; do
    kill -0 $! || exit 1
    sleep 0.02
done
exec nginx -p "$PWD" -e stderr -c "$PWD/nginx.conf"
