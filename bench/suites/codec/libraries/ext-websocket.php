<?php

declare(strict_types=1);

use WebSocket\Protocol;

function measure(string $function, string $input, string $payload, int $calls): int
{
    if (!str_ends_with(Protocol::encode($payload), $payload) || $function === 'decode' && Protocol::decode($input)->payload !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = Protocol::encode($input);
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $result = Protocol::decode($input);
        }
    }
    return hrtime(true) - $start;
}
