<?php

/**
 * Calls one function of one codec many times: `php measure.php LIBRARY ROW CALLS` prints nanoseconds per call.
 *
 * Loop and assignment are part of it, the same for all, and every class is named in the source: a name in a variable is
 * looked up anew at each call, which costs more than some of the calls. The result is checked before anything is
 * measured. Libraries in PHP need objects around the call; those are made once.
 */

declare(strict_types=1);

const MASKED = 0x80;

[, $library, $row, $calls] = $argv;
[$function, $bytes] = explode('-', $row);
$payload = substr(str_repeat('The quick brown fox jumps over the lazy dog. ', 100), 0, (int) $bytes);

$key = "\x37\xfa\x21\x3d";
$length = strlen($payload) < 126 ? chr(MASKED | strlen($payload)) : chr(MASKED | 126) . pack('n', strlen($payload));
$frame = "\x81" . $length . $key . ($payload ^ str_repeat($key, intdiv(strlen($payload), 4)));

// Defines measure(), which calls that library.
require __DIR__ . "/libraries/$library.php";

$input = $function === 'encode' ? $payload : $frame;
measure($function, $input, $payload, intdiv((int) $calls, 10));
echo measure($function, $input, $payload, (int) $calls) / (int) $calls, "\n";
