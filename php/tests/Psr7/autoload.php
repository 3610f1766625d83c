<?php

declare(strict_types=1);

// Loads the tests of php-http/psr7-integration-tests from the checkout FERMATA_PSR7_TESTS. Loads the PSR-7 library TEST_PSR7 from
// Debian's packages, or laminas from the checkout of laminas/laminas-diactoros FERMATA_LAMINAS.

require dirname(__DIR__) . '/autoload.php';
define('LIBRARY', (string) getenv('TEST_PSR7'));
$folders = ['Http\\Psr7Test\\' => getenv('FERMATA_PSR7_TESTS') . '/src/'];
if (LIBRARY === 'laminas') {
    $folders['Laminas\\Diactoros\\'] = getenv('FERMATA_LAMINAS') . '/src/';
}
spl_autoload_register(static function (string $class) use ($folders): void {
    foreach ($folders as $prefix => $folder) {
        $file = $folder . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
if (LIBRARY === 'laminas') {
    require 'Psr/Http/Message/autoload.php';
    require 'Psr/Http/Message/factory-autoload.php';
    foreach (glob(getenv('FERMATA_LAMINAS') . '/src/functions/*.php') as $file) {
        require_once $file;
    }
} else {
    require ['nyholm' => 'Nyholm/Psr7', 'guzzle' => 'GuzzleHttp/Psr7', 'slim' => 'Slim/Psr7'][LIBRARY] . '/autoload.php';
}
// The tests use a library's classes directly unless factories are named.
[$uri, $stream, $file] = match (LIBRARY) {
    'nyholm' => array_fill(0, 3, Nyholm\Psr7\Factory\Psr17Factory::class),
    'guzzle' => array_fill(0, 3, GuzzleHttp\Psr7\HttpFactory::class),
    'slim' => [Slim\Psr7\Factory\UriFactory::class, Slim\Psr7\Factory\StreamFactory::class, Slim\Psr7\Factory\UploadedFileFactory::class],
    'laminas' => [Laminas\Diactoros\UriFactory::class, Laminas\Diactoros\StreamFactory::class, Laminas\Diactoros\UploadedFileFactory::class],
};
define('URI_FACTORY', $uri);
define('STREAM_FACTORY', $stream);
define('UPLOADED_FILE_FACTORY', $file);
