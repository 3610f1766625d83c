<?php

/** Common end of both client loops: reports the elapsed and processor time since `$start` and `$before`. */

declare(strict_types=1);

$seconds = (hrtime(true) - $start) / 1e9;
$after = getrusage();
$spent = 0;
foreach (['ru_utime', 'ru_stime'] as $kind) {
    $spent += ($after["$kind.tv_sec"] - $before["$kind.tv_sec"]) * 1e9;
    $spent += ($after["$kind.tv_usec"] - $before["$kind.tv_usec"]) * 1e3;
}
echo json_encode(['seconds' => $seconds, 'cpu_ns' => (int) $spent]);
