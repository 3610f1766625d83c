<?php

declare(strict_types=1);

// Loads the library, its tests, Revolt from the checkout FERMATA_REVOLT, and Laravel Octane from the checkout FERMATA_OCTANE.
// Frameworks are Debian's packages in PHP's include path.
spl_autoload_register(static function (string $class): void {
    $revolt = getenv('FERMATA_REVOLT') ?: '';
    $octane = getenv('FERMATA_OCTANE') ?: '';
    $folders = [
        'Fermata\\Tests\\' => __DIR__ . '/',
        'Fermata\\' => dirname(__DIR__) . '/src/',
        'Psr\\Http\\Server\\' => __DIR__ . '/stubs/Psr/Http/Server/',
        'Revolt\\EventLoop\\Driver\\DriverTest' => "$revolt/test/Driver/DriverTest",
        'Revolt\\' => "$revolt/src/",
        'Laravel\\Octane\\' => "$octane/src/",
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
