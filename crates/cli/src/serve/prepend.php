<?php

declare(strict_types=1);

namespace Fermata\Development;

/*
 * Runs before each script under `fermata dev FOLDER` (auto_prepend_file): pages that reload, a page for uncaught errors, and a
 * line per request.
 *
 * A script that sets its own exception handler or closes all output buffers overrides these features.
 */
(static function (): void {
    $target = (string) ($_SERVER['REQUEST_URI'] ?? '');
    if (str_starts_with($target, '/.fermata/')) {
        return;
    }
    // Fatal errors that no exception handler receives, such as a syntax error of the script itself.
    $fatal = static function (): ?array {
        $last = error_get_last();
        $ending = E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;
        return ($last['type'] ?? 0) & $ending ? $last : null;
    };
    register_shutdown_function(static function () use ($target, $fatal): void {
        $status = $fatal() === null || headers_sent() ? (int) http_response_code() : 500;
        $isColoured = getenv('FERMATA_DEVELOPMENT_COLOURED') === '1';
        $ms = (microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) * 1000;
        $line = Page::line($isColoured, $status, $_SERVER['REQUEST_METHOD'] ?? '', $target, $ms, $_SERVER['SCRIPT_NAME'] ?? '');
        file_put_contents('php://stderr', $line);
    });
    require_once __DIR__ . '/page.php';
    $line = ($_SERVER['REQUEST_METHOD'] ?? '') . " $target";
    $headers = static fn(): array => function_exists('getallheaders') ? getallheaders() : [];
    $isPage = str_contains((string) ($_SERVER['HTTP_ACCEPT'] ?? ''), 'text/html');
    ob_start(static function (string $page, int $phase) use ($line, $headers, $isPage, $fatal): string {
        $last = $fatal();
        if ($last !== null && !headers_sent()) {
            http_response_code(500);
        }
        if ($isPage && $last !== null) {
            $error = new \ErrorException($last['message'], 0, $last['type'], $last['file'], $last['line']);
            return Page::of($error, 500, [], $line, $headers());
        }
        if ($page === '' || ($phase & PHP_OUTPUT_HANDLER_FINAL) === 0 || ($_SERVER['REQUEST_METHOD'] ?? '') === 'HEAD') {
            return $page;
        }
        $type = (string) ini_get('default_mimetype');
        foreach (headers_list() as $header) {
            [$name, $value] = explode(':', $header, 2) + [1 => ''];
            if (in_array(strtolower($name), ['content-length', 'content-encoding'], true)) {
                return $page;
            }
            $type = strcasecmp($name, 'Content-Type') === 0 ? trim($value) : $type;
        }
        if (stripos($type, 'text/html') !== 0 || str_contains($page, Page::SCRIPT)) {
            return $page;
        }
        $tag = Page::script($headers());
        $end = strripos($page, '</body>');
        return $end === false ? $page . $tag : substr_replace($page, $tag, $end, 0);
    });
    $level = ob_get_level();
    set_exception_handler(static function (\Throwable $error) use ($line, $headers, $isPage, $level): void {
        error_log("PHP Fatal error:  Uncaught $error");
        while (ob_get_level() > $level && ob_end_clean()) {
        }
        if (ob_get_level() === $level) {
            ob_clean();
        }
        if (!headers_sent()) {
            header_remove();
            http_response_code(500);
            header('Content-Type: ' . ($isPage ? 'text/html' : 'text/plain') . '; charset=utf-8');
        }
        // The error page includes the reload script.
        echo $isPage ? Page::of($error, 500, [], $line, $headers()) : "$error\n";
    });
})();
