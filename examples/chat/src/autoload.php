<?php

declare(strict_types=1);

// Loads Chat\Foo from src/Foo.php. The example needs nothing else from Composer.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Chat\\')) {
        require __DIR__ . '/' . strtr(substr($class, 5), '\\', '/') . '.php';
    }
});
