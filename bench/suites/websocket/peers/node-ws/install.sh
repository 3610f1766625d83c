#!/bin/sh
# `install.sh PEERS`: installs the package ws into the build folder, from PEERS if it is there, otherwise from npm.
[ -d node_modules/ws ] && exit 0
if [ -d "$1/node_modules/ws" ]; then
    mkdir -p node_modules && cp -r "$1/node_modules/ws" node_modules/
else
    npm install --no-audit --no-fund --no-save --prefix "$PWD" ws@8
fi
