<?php

declare(strict_types=1);

/** Shows values in the terminal, and in the browser below the page or on the error page. */
function dump(mixed ...$values): mixed
{
    $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 1)[0] ?? [];
    foreach ($values as $value) {
        \Fermata\Development\Tool::dump($value, basename($caller['file'] ?? '') . ':' . ($caller['line'] ?? 0));
    }
    return $values[0] ?? null;
}
