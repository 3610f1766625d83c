#!/bin/sh
# Starts Pushpin and zurl in the folder of the rendered files, with one route. Pushpin takes this process's place, so a
# signal to it stops Pushpin in order; zurl ends with the process group.
mkdir -p run log
zurl --config=zurl.conf >zurl.out 2>&1 &
exec pushpin --config="$PWD/pushpin.conf" --route="$1"
