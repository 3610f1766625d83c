<?php

/** `php -d extension=fermata.so fermata.php ws://127.0.0.1:PORT/ COUNT [SUBPROTOCOL]` */

declare(strict_types=1);

use Fermata\WebSocket\Client;

[, $url, $count, $subprotocol] = $argv + [3 => ''];
$subprotocols = $subprotocol === '' ? [] : [$subprotocol];

$before = getrusage();
$start = hrtime(true);
for ($i = 0; $i < (int) $count; $i++) {
    $client = Client::connect($url, subprotocols: $subprotocols);
    if ($client->protocol() !== ($subprotocol === '' ? null : $subprotocol)) {
        exit('another subprotocol');
    }
    $client->close();
}
require __DIR__ . '/report.php';
