<?php

/**
 * Measures one function of one codec: `php measure.php LIBRARY ROW CALLS` prints nanoseconds per call.
 *
 * The figure includes the loop and the assignment, which are the same for all libraries. Class names are literals in the source: a
 * name in a variable is looked up at each call, which costs more than some of the calls. The result is checked before the
 * measurement. Objects that a PHP library needs for the call are created once.
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
