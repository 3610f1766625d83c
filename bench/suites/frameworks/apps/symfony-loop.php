<?php

declare(strict_types=1);

// Runs the kernel of symfony.php without a server: boots it once and handles requests in sequence without resetting services.
// The argument is the number of requests.

use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\Runtime\SymfonyRuntime;

require __DIR__ . '/symfony-kernel.php';

$requests = (int) ($argv[1] ?? 1);
// The runtime installs the error handler that receives deprecations of Debian's packages, as in a server.
new SymfonyRuntime(['project_dir' => getenv('BENCH_FOLDER') ?: $_SERVER['BENCH_FOLDER'], 'disable_dotenv' => true, 'env' => 'prod', 'debug' => false]);
$kernel = new BenchKernel('prod', false);
$kernel->boot();
// Kernel::handle() would reset the services.
$http = $kernel->getContainer()->get('http_kernel');
$_SERVER = ['REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/books/7', 'SCRIPT_NAME' => '/index.php', 'SCRIPT_FILENAME' => '/index.php',
    'SERVER_NAME' => '127.0.0.1', 'SERVER_PORT' => '80', 'HTTP_HOST' => '127.0.0.1', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'] + $_SERVER;
for ($i = 0; $i < $requests; $i++) {
    $request = Request::createFromGlobals();
    $response = $http->handle($request);
    $content = $response->getContent();
    $http->terminate($request, $response);
    if (!str_contains($content, 'Chapter 20')) {
        fwrite(STDERR, "the application answers {$response->getStatusCode()}\n");
        exit(1);
    }
}
