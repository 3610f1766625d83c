<?php

// A control port for tests, run by `php -S`. The path selects the response; requests are recorded.

declare(strict_types=1);

header('Content-Type: text/plain');
if (str_starts_with($_SERVER['REQUEST_URI'], '/refuses/')) {
    http_response_code(400);
    print "Invalid format: no formats specified\n";
    return true;
}
if (str_starts_with($_SERVER['REQUEST_URI'], '/overloaded/') && count(file(getenv('SEEN'))) < 2) {
    file_put_contents(getenv('SEEN'), "{}\n", FILE_APPEND);
    http_response_code(503);
    print "busy\n";
    return true;
}
if (preg_match('~^/status/(\d+)/~', $_SERVER['REQUEST_URI'], $match) === 1) {
    file_put_contents(getenv('SEEN'), "{}\n", FILE_APPEND);
    http_response_code((int) $match[1]);
    return true;
}
$seen = ['path' => $_SERVER['REQUEST_URI'], 'authorization' => $_SERVER['HTTP_AUTHORIZATION'] ?? null,
    'body' => json_decode(file_get_contents('php://input'), true)];
file_put_contents(getenv('SEEN'), json_encode($seen) . "\n", FILE_APPEND);
print "Published\n";
return true;
