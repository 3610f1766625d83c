<?php

declare(strict_types=1);

// Define this function, because applications that run under FrankenPHP check for it.

if (!function_exists('headers_send')) {
    function headers_send(int $status = 200): int
    {
        return Fermata\Internal\FrontController::sendHeaders($status);
    }
}
