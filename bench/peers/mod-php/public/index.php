<?php

declare(strict_types=1);

// A small JSON response, with one run of the script per request, for mod_php and PHP-FPM.

header('Content-Type: application/json');
$body = json_encode(['status' => 'OK']);
header('Content-Length: ' . strlen($body));
echo $body;
