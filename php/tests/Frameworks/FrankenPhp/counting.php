<?php

// A worker script that ends after a number of requests, as in FrankenPHP's documentation.

$handler = static function (): void {
    header('Content-Type: application/json');
    echo json_encode(Fermata\Tests\Php::used());
};
$requestsMax = (int) getenv('MAX_REQUESTS');
for ($count = 0; $requestsMax === 0 || $count < $requestsMax; $count++) {
    if (!frankenphp_handle_request($handler)) {
        break;
    }
}
