<?php

declare(strict_types=1);

use Fermata\WebSocket\Codec;

function measure(string $function, string $input, string $payload, int $calls): int
{
    if (!str_ends_with(Codec::encode($payload), $payload) || $function === 'decode' && Codec::decode($input)->payload !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = Codec::encode($input);
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $result = Codec::decode($input);
        }
    }
    return hrtime(true) - $start;
}
