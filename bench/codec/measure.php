<?php

/**
 * Calls one function of one codec many times: `php measure.php LIBRARY ROW CALLS` prints nanoseconds per call.
 *
 * Loop and assignment are part of it, the same for all. The result is checked before anything is measured.
 */

declare(strict_types=1);

const MASKED = 0x80;

[, $library, $row, $calls] = $argv;
[$function, $bytes] = explode('-', $row);
$payload = substr(str_repeat('The quick brown fox jumps over the lazy dog. ', 100), 0, (int) $bytes);

$class = ['fermata' => 'Fermata\WebSocket\Codec', 'ext-websocket' => 'WebSocket\Protocol'][$library];
$key = "\x37\xfa\x21\x3d";
$length = strlen($payload) < 126 ? chr(MASKED | strlen($payload)) : chr(MASKED | 126) . pack('n', strlen($payload));
$frame = "\x81" . $length . $key . ($payload ^ str_repeat($key, intdiv(strlen($payload), 4)));

/** @param class-string $class */
function encode(string $class, string $payload, int $calls): int
{
    $start = hrtime(true);
    for ($i = 0; $i < $calls; $i++) {
        $result = $class::encode($payload);
    }
    return hrtime(true) - $start;
}

/** @param class-string $class */
function decode(string $class, string $frame, int $calls): int
{
    $start = hrtime(true);
    for ($i = 0; $i < $calls; $i++) {
        $result = $class::decode($frame);
    }
    return hrtime(true) - $start;
}

$encoded = $class::encode($payload);
$decoded = $class::decode($frame);
if (!str_ends_with($encoded, $payload) || $decoded->payload !== $payload) {
    fwrite(STDERR, "$library gives a wrong result\n");
    exit(1);
}
$input = $function === 'encode' ? $payload : $frame;
$function($class, $input, intdiv((int) $calls, 10));
echo $function($class, $input, (int) $calls) / (int) $calls, "\n";
