#!/bin/sh
# Starts Pushpin and zurl in the folder of the rendered files, with one route. Pushpin replaces this process, so a
# signal to it stops Pushpin cleanly. zurl is killed with the process group.
mkdir -p run log
zurl --config=zurl.conf >zurl.out 2>&1 &
exec pushpin --config="$PWD/pushpin.conf" --route="$1"
