#!/bin/sh
# `start.sh PHP-FPM [OPTION...]` starts both programs in the folder of the rendered files. nginx takes this process's place, so a signal to it stops
# nginx in order; PHP-FPM ends with the process group.
rm -f fpm.sock
"$@" --nodaemonize --allow-to-run-as-root --fpm-config "$PWD/fpm.conf" &
while [ ! -S fpm.sock ]; do
    kill -0 $! || exit 1
    sleep 0.02
done
exec nginx -p "$PWD" -e stderr -c "$PWD/nginx.conf"
