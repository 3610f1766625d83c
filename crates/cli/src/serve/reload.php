<?php

declare(strict_types=1);

/* Event stream for pages: the edge holds the clients, and the command publishes changes. */
header('Cache-Control: no-store');
if (str_starts_with($_SERVER['REQUEST_URI'], '/.fermata/reload.js')) {
    header('Content-Type: text/javascript; charset=utf-8');
    readfile(__DIR__ . '/reload.js');
    exit;
}
header('Content-Type: text/event-stream');
header('Grip-Hold: stream');
header('Grip-Channel: fermata.development');
header('Grip-Keep-Alive: :\\n\\n; format=cstring; timeout=20');
echo "event: state\ndata: ", file_get_contents(__DIR__ . '/state.json'), "\n\n";
