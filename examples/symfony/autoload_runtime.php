<?php

declare(strict_types=1);

// Composer's vendor/autoload_runtime.php if installed, otherwise a replacement for Debian's packages and this checkout.

if (is_file(__DIR__ . '/vendor/autoload_runtime.php')) {
    return require __DIR__ . '/vendor/autoload_runtime.php';
}
set_include_path(get_include_path() . PATH_SEPARATOR . '/usr/share/php');
foreach (['Bundle/FrameworkBundle', 'Bundle/TwigBundle', 'Component/Runtime', 'Component/Console', 'Component/Dotenv', 'Component/Yaml'] as $package) {
    require_once "Symfony/$package/autoload.php";
}
// Symfony 6 calls Composer\InstalledVersions, which Debian's packages do not load.
if (!class_exists(Composer\InstalledVersions::class) && stream_resolve_include_path('Composer/InstalledVersions.php')) {
    require_once 'Composer/InstalledVersions.php';
}
spl_autoload_register(static function (string $class): void {
    foreach (['App\\' => __DIR__ . '/src/', 'Fermata\\' => dirname(__DIR__, 2) . '/php/src/'] as $prefix => $folder) {
        $file = $folder . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
$application = require $_SERVER['SCRIPT_FILENAME'];
$class = $_SERVER['APP_RUNTIME'] ?? Fermata\Symfony\Runtime::class;
$runtime = new $class(['project_dir' => __DIR__, 'disable_dotenv' => true]);
[$application, $arguments] = $runtime->getResolver($application)->resolve();
exit($runtime->getRunner($application(...$arguments))->run());
