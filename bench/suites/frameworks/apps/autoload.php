<?php

declare(strict_types=1);

// Autoloads this checkout's library, and frameworks from Debian's packages.

set_include_path('/usr/share/php');
spl_autoload_register(static function (string $class): void {
    $folders = ['Psr\\Http\\Server\\' => '/php/tests/stubs/Psr/Http/Server/', 'Fermata\\' => '/php/src/'];
    foreach ($folders as $prefix => $folder) {
        $file = dirname(__DIR__, 4) . $folder . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});
