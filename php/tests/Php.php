<?php

declare(strict_types=1);

namespace Fermata\Tests;

/** How the tests of the bridges start PHP: with Debian's frameworks, or those in the folder that FERMATA_FRAMEWORKS names. */
final class Php
{
    /** @return list<string> options of the command */
    public static function options(): array
    {
        $frameworks = getenv('FERMATA_FRAMEWORKS') ?: '/usr/share/php';
        return ["-dinclude_path=.:$frameworks", '-derror_reporting=' . (E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED)];
    }

    /**
     * In an application: the worker, and what PHP uses in it when its collector has run. A request may have it keep so many bytes more.
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
