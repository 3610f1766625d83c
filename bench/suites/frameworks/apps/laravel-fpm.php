<?php

declare(strict_types=1);

// Front controller of examples/laravel for PHP-FPM.

$root = dirname(__DIR__, 4) . '/examples/laravel';
require "$root/autoload.php";
$application = require "$root/bootstrap/app.php";
$kernel = $application->make(Illuminate\Contracts\Http\Kernel::class);
$request = Illuminate\Http\Request::capture();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
