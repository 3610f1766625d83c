<?php

declare(strict_types=1);

// Finds the library, its tests, and Revolt in the checkout that FERMATA_REVOLT names. Frameworks are Debian's packages, in
// PHP's include path.
spl_autoload_register(static function (string $class): void {
    $revolt = getenv('FERMATA_REVOLT') ?: '';
    $folders = [
        'Fermata\\Tests\\' => __DIR__ . '/',
        'Fermata\\' => dirname(__DIR__) . '/src/',
        'Psr\\Http\\Server\\' => __DIR__ . '/stubs/Psr/Http/Server/',
        'Revolt\\EventLoop\\Driver\\DriverTest' => "$revolt/test/Driver/DriverTest",
        'Revolt\\' => "$revolt/src/",
    ];
    foreach ($folders as $prefix => $folder) {
        if (str_starts_with($class, $prefix)) {
            $file = $folder . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
            if (is_file($file)) {
                require $file;
                return;
            }
        }
    }
});
