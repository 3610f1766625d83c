<?php

declare(strict_types=1);

$application = new Illuminate\Foundation\Application(dirname(__DIR__));
// Writable folder for notes, sessions and compiled views.
$storage = getenv('APP_VAR') ?: dirname(__DIR__) . '/storage';
foreach (['sessions', 'views', 'cache'] as $folder) {
    is_dir("$storage/$folder") || mkdir("$storage/$folder", 0700, true);
}
$application->useStoragePath($storage);
$_ENV['APP_SERVICES_CACHE'] ??= "$storage/cache/services.php";
$_ENV['APP_PACKAGES_CACHE'] ??= "$storage/cache/packages.php";
$application->singleton(Illuminate\Contracts\Http\Kernel::class, App\Http\Kernel::class);
$application->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$application->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $application;
