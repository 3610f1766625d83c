<?php

declare(strict_types=1);

// The application that the tests of the Laravel bridge serve. Its writable folder is TEST_FOLDER.

use Fermata\Tests\Frameworks\Laravel\Kernel;

$application = new Illuminate\Foundation\Application(dirname(__DIR__));
$application->useStoragePath(getenv('TEST_FOLDER'));
$application->singleton(Illuminate\Contracts\Http\Kernel::class, Kernel::class);
$application->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$application->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
return $application;
