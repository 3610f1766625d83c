<?php

declare(strict_types=1);

// Chat\Foo lives in src/Foo.php. The example needs nothing else from Composer, so it does without it.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Chat\\')) {
        require __DIR__ . '/' . strtr(substr($class, 5), '\\', '/') . '.php';
    }
});
