<?php

declare(strict_types=1);

// What programs that run behind FrankenPHP look for.

if (!function_exists('headers_send')) {
    function headers_send(int $status = 200): int
    {
        return Fermata\Internal\FrontController::sendHeaders($status);
    }
}
