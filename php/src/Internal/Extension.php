<?php

declare(strict_types=1);

namespace Fermata\Internal;

/**
 * Checks for the PHP extension, which Composer cannot install with the library.
 *
 * @internal
 */
final class Extension
{
    /** @throws \RuntimeException if the extension is not loaded */
    public static function require(): void
    {
        if (!extension_loaded('fermata')) {
            throw new \RuntimeException(self::missing());
        }
    }

    public static function missing(): string
    {
        $ini = php_ini_loaded_file();
        return 'this PHP (' . PHP_BINARY . ') has not loaded the extension fermata, which is the server: install it as docs/install.md says, '
            . 'and enable it by `extension=fermata.so` in ' . ($ini === false ? 'a php.ini' : $ini) . ' or behind `php -d`';
    }
}
