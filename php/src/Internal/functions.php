<?php

declare(strict_types=1);

// Applications that run under FrankenPHP check for this function.

if (!function_exists('headers_send')) {
    function headers_send(int $status = 200): int
    {
        return Fermata\Internal\FrontController::sendHeaders($status);
    }
}
