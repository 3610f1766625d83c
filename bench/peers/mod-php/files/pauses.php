<?php
// A request that waits 50 ms for nothing.
header('Content-Type: text/plain');
usleep(50000);
echo "OK\n";
