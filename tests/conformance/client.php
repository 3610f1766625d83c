<?php

declare(strict_types=1);

// Fermata\WebSocket\Client against the Autobahn Testsuite: client.php URL AGENT

use Fermata\Exception\ConnectionClosedException;
use Fermata\Exception\ProtocolException;
use Fermata\WebSocket\Client;

const SECONDS_MAX = 120.0;

[, $url, $agent] = $argv;
$client = Client::connect("$url/getCaseCount");
$count = (int) $client->receive(SECONDS_MAX)?->data();
$client->close();
for ($case = 1; $case <= $count; ++$case) {
    $client = Client::connect("$url/runCase?case=$case&agent=$agent", timeout: SECONDS_MAX, compression: true, messageBytes: 32 << 20);
    try {
        while ($message = $client->receive(SECONDS_MAX)) {
            $client->send($message);
        }
    } catch (ConnectionClosedException | ProtocolException) {
        // The suite itself checks the closing handshake.
    }
}
Client::connect("$url/updateReports?agent=$agent")->close(timeout: SECONDS_MAX);
