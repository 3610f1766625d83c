<?php

declare(strict_types=1);

// Runs the application of examples/laravel without a server: boots it once and handles requests in sequence without resetting
// state. The cost per request is the framework's own and the lower bound for every server. The argument is the number of requests.

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
