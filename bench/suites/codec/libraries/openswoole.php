<?php

declare(strict_types=1);

use OpenSwoole\WebSocket\Server;

function measure(string $function, string $input, string $payload, int $calls): int
{
    // unpack() unmasks its input in place, so the next call masks it again. Check a copy. The number of calls is even, which
    // restores the input.
    $copy = strrev(strrev($input));
    if (!str_ends_with(Server::pack($payload), $payload) || $function === 'decode' && Server::unpack($copy)->data !== $payload) {
        throw new UnexpectedValueException('a wrong result');
    }
    $start = hrtime(true);
    if ($function === 'encode') {
        for ($i = 0; $i < $calls; $i++) {
            $result = Server::pack($input);
        }
    } else {
        for ($i = 0; $i < $calls; $i++) {
            $result = Server::unpack($input);
        }
    }
    return hrtime(true) - $start;
}
