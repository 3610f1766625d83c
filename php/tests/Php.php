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
}
