<?php

declare(strict_types=1);

// The application of examples/laravel without a server: booted once, and given one request after another, with nothing reset
// between two. What a request costs here is the framework's own, which no server can go below. The argument is how many.

$requests = (int) ($argv[1] ?? 1);
$root = dirname(__DIR__, 4) . '/examples/laravel';
$_ENV['APP_RUNNING_IN_CONSOLE'] = $_SERVER['APP_RUNNING_IN_CONSOLE'] = 'false';
require "$root/autoload.php";
$application = require "$root/bootstrap/app.php";
$kernel = $application->make(Illuminate\Contracts\Http\Kernel::class);
$kernel->bootstrap();
$_SERVER = ['REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SCRIPT_NAME' => '/index.php', 'SCRIPT_FILENAME' => "$root/public/index.php",
    'SERVER_NAME' => '127.0.0.1', 'SERVER_PORT' => '80', 'HTTP_HOST' => '127.0.0.1', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'] + $_SERVER;
for ($i = 0; $i < $requests; $i++) {
    $request = Illuminate\Http\Request::capture();
    $response = $kernel->handle($request);
    $content = $response->getContent();
    $kernel->terminate($request, $response);
    if ($response->getStatusCode() !== 200 || !str_contains($content, '</html>')) {
        fwrite(STDERR, "the application answers {$response->getStatusCode()}\n");
        exit(1);
    }
}
