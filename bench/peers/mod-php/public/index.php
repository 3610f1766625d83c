<?php

declare(strict_types=1);

// Small JSON, a run of the script per request: mod_php and PHP-FPM serve this file.

header('Content-Type: application/json');
$body = json_encode(['status' => 'OK']);
header('Content-Length: ' . strlen($body));
echo $body;
