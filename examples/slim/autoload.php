<?php

declare(strict_types=1);

// Composer's autoloader if installed, otherwise Debian's packages php-slim and php-nyholm-psr7 and this checkout.

if (is_file(__DIR__ . '/vendor/autoload.php')) {
    return require __DIR__ . '/vendor/autoload.php';
}
set_include_path(get_include_path() . PATH_SEPARATOR . '/usr/share/php');
require_once 'Slim/autoload.php';
require_once 'Nyholm/Psr7/autoload.php';
spl_autoload_register(static function (string $class): void {
    $file = dirname(__DIR__, 2) . '/php/src/' . str_replace('\\', '/', substr($class, strlen('Fermata\\'))) . '.php';
    if (str_starts_with($class, 'Fermata\\') && is_file($file)) {
        require $file;
    }
});
