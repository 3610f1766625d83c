<?php

declare(strict_types=1);

// Composer's autoloader if installed, otherwise Debian's package php-laravel-framework and this checkout.

if (is_file(__DIR__ . '/vendor/autoload.php')) {
    return require __DIR__ . '/vendor/autoload.php';
}
set_include_path(get_include_path() . PATH_SEPARATOR . '/usr/share/php');
require_once 'Illuminate/autoload.php';
spl_autoload_register(static function (string $class): void {
    foreach (['App\\' => __DIR__ . '/app/', 'Fermata\\' => dirname(__DIR__, 2) . '/php/src/'] as $prefix => $folder) {
        $file = $folder . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
