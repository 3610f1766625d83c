<?php

// The worker script, as one for FrankenPHP is: each request runs the program of one of PHP's tests, whose file the environment names.

declare(strict_types=1);

$run = static function (): void {
    $file = getenv('FERMATA_TEST_FILE');
    chdir(dirname($file));
    // As after the start of a program that PHP-FPM runs.
    error_clear_last();
    // A server writes messages of PHP to its log; the tests expect them in the page, as with display_errors of PHP-FPM.
    set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
        $name = match ($level) {
            E_WARNING, E_USER_WARNING => 'Warning',
            E_NOTICE, E_USER_NOTICE => 'Notice',
            E_DEPRECATED, E_USER_DEPRECATED => 'Deprecated',
            default => 'Fatal error',
        };
        if ((error_reporting() & $level) !== 0) {
            echo PHP_EOL, "$name: $message in $file on line $line", PHP_EOL;
        }
        return true;
    });
    try {
        (static function () use ($file): void {
            // Variables of the outermost level are global, at least those that functions ask for.
            foreach ([$file, ...glob(dirname($file) . '/*.inc')] as $source) {
                preg_match_all('/\bglobal\s+([^;]+);|\$GLOBALS\[["\']?(\w+)/', file_get_contents($source), $all);
                preg_match_all('/\w+/', implode(' ', [...$all[1], ...$all[2]]), $names);
                foreach (array_diff($names[0], ['this']) as $name) {
                    if ($name[0] !== '_' && !is_numeric($name)) {
                        global $$name;
                    }
                }
            }
            unset($source, $all, $names, $name, $file);
            include getenv('FERMATA_TEST_FILE');
        })();
    } catch (Throwable $error) {
        // Not the worker's to throw, or it would be replaced, and PHP would print it nowhere.
        echo PHP_EOL, 'Fatal error: Uncaught ', $error, PHP_EOL, '  thrown in ', $error->getFile(), ' on line ', $error->getLine(), PHP_EOL;
    }
};

while (frankenphp_handle_request($run)) {
}
