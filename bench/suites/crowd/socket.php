<?php

// Backend of the sockets that `soak.py --server edge` holds: WebSocket over HTTP, one request after another.
// A client joins the channel of a group by its URL, or by the message `join N`.
$join = static function (int $group): string {
    $subscribe = 'c:' . json_encode(['type' => 'subscribe', 'channel' => "socket-$group"]);
    return sprintf("TEXT %x\r\n%s\r\n", strlen($subscribe), $subscribe);
};

$events = file_get_contents('php://input');
if (!str_contains($_SERVER['CONTENT_TYPE'] ?? '', 'websocket-events')) {
    header('Content-Type: text/plain');
    print "ready\n";
    return;
}
header('Content-Type: application/websocket-events');
header('Sec-WebSocket-Extensions: grip');
while (preg_match('/^([A-Z]+)(?: ([0-9a-fA-F]+))?\r\n/', $events, $found)) {
    $length = isset($found[2]) ? hexdec($found[2]) : null;
    $content = $length === null ? '' : substr($events, strlen($found[0]), $length);
    $events = substr($events, strlen($found[0]) + ($length === null ? 0 : $length + 2));
    if ($found[1] === 'OPEN') {
        print "OPEN\r\n";
        print isset($_GET['group']) ? $join((int) $_GET['group']) : '';
    } elseif ($found[1] === 'TEXT' && sscanf($content, 'join %d', $group) === 1) {
        print $join($group) . "TEXT 8\r\nm:joined\r\n";
    } elseif ($found[1] === 'CLOSE') {
        print $length === null ? "CLOSE\r\n" : sprintf("CLOSE %x\r\n%s\r\n", $length, $content);
    }
}
