<?php

declare(strict_types=1);

namespace Fermata\Tests;

/** PHP options for the bridges' tests: Debian's frameworks, or those in the folder FERMATA_FRAMEWORKS. */
final class Php
{
    /** @return list<string> options of the php command */
    public static function options(): array
    {
        $frameworks = getenv('FERMATA_FRAMEWORKS') ?: '/usr/share/php';
        return ["-dinclude_path=.:$frameworks", '-derror_reporting=' . (E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED)];
    }

    /**
     * Called in an application: returns the worker's process id and PHP's memory use after a cycle collection, in bytes. With
     * `?keep=N` the worker retains N more bytes.
     *
     * @return array{int, int}
     */
    public static function used(): array
    {
        static $kept = [];
        if (($_GET['keep'] ?? 0) > 0) {
            $kept[] = str_repeat('x', (int) $_GET['keep']);
        }
        gc_collect_cycles();
        return [getmypid(), memory_get_usage()];
    }
}
