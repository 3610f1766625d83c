<?php
// Sleeps 50 ms.
header('Content-Type: text/plain');
usleep(50000);
echo "OK\n";
