<?php

declare(strict_types=1);

// Runs the application of slim.php without a server: handles requests in sequence without resetting state. The argument is the
// number of requests.

use Nyholm\Psr7\{Response, ServerRequest};

$app = require __DIR__ . '/slim-app.php';
$requests = (int) ($argv[1] ?? 1);
$request = new ServerRequest('GET', 'http://127.0.0.1/books/7', ['host' => '127.0.0.1']);
for ($i = 0; $i < $requests; $i++) {
    $content = (string) $app->process($request, new Response())->getBody();
    if (!str_contains($content, 'Book 7')) {
        fwrite(STDERR, "the application answers $content\n");
        exit(1);
    }
}
