<?php

// FrankenPHP worker script: each request runs the script of one of PHP's tests, whose path is in the environment.

declare(strict_types=1);

$run = static function (): void {
    $file = getenv('FERMATA_TEST_FILE');
    chdir(dirname($file));
    // PHP-FPM starts a script without a previous error.
    error_clear_last();
    // The server logs PHP's messages; the tests expect them in the page, as with PHP-FPM's display_errors.
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
            // The test runs inside a function: make the variables global that its functions use with `global` or $GLOBALS.
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
        // Do not throw: the worker would be replaced and the message would not be printed.
        echo PHP_EOL, 'Fatal error: Uncaught ', $error, PHP_EOL, '  thrown in ', $error->getFile(), ' on line ', $error->getLine(), PHP_EOL;
    }
};

while (frankenphp_handle_request($run)) {
}
