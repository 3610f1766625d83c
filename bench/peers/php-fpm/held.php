<?php

declare(strict_types=1);

// A held event stream under PHP-FPM, which occupies one process.

header('Content-Type: text/event-stream');
header('X-Accel-Buffering: no');
echo "data: open\n\n";
ob_end_flush();
flush();
set_time_limit(0);
while (!connection_aborted()) {
    sleep(600);
}
