<?php

declare(strict_types=1);

// FrankenPHP's functions, for scripts that run under Fermata\FrankenPhp\Worker. The extension defines mercure_publish().

use Fermata\FrankenPhp\Worker;

if (!function_exists('frankenphp_handle_request')) {
    define('FRANKENPHP_LOG_LEVEL_DEBUG', -4);
    define('FRANKENPHP_LOG_LEVEL_INFO', 0);
    define('FRANKENPHP_LOG_LEVEL_WARN', 4);
    define('FRANKENPHP_LOG_LEVEL_ERROR', 8);

    function frankenphp_handle_request(callable $callback): bool
    {
        return Worker::handleRequest($callback);
    }

    function frankenphp_finish_request(): bool
    {
        return Worker::finishRequest();
    }

    /** @return array<string, string> */
    function frankenphp_request_headers(): array
    {
        return Worker::requestHeaders();
    }

    /** @return array<string, string> */
    function frankenphp_response_headers(): array
    {
        return Worker::responseHeaders();
    }

    /** @param array<string, mixed> $context */
    function frankenphp_log(string $message, int $level = FRANKENPHP_LOG_LEVEL_INFO, array $context = []): void
    {
        $name = match (true) {
            $level < FRANKENPHP_LOG_LEVEL_INFO => 'debug',
            $level < FRANKENPHP_LOG_LEVEL_WARN => 'info',
            $level < FRANKENPHP_LOG_LEVEL_ERROR => 'warning',
            default => 'error',
        };
        $line = "$name: $message" . ($context === [] ? '' : ' ' . json_encode($context, JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_UNESCAPED_SLASHES));
        file_put_contents('php://stderr', preg_replace('/[\x00-\x1f\x7f]+/', ' ', $line) . "\n");
    }
}

foreach ([
    'fastcgi_finish_request' => 'frankenphp_finish_request',
    'apache_request_headers' => 'frankenphp_request_headers',
    'getallheaders' => 'frankenphp_request_headers',
    'apache_response_headers' => 'frankenphp_response_headers',
] as $alias => $function) {
    if (!function_exists($alias)) {
        $type = str_ends_with($alias, 'request') ? 'bool' : 'array';
        eval("function $alias(): $type { return $function(); }");
    }
}
