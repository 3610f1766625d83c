<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\Extension;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\Runtime\{RunnerInterface, SymfonyRuntime};

/**
 * Serves an unmodified Symfony application: APP_RUNTIME='Fermata\Symfony\Runtime' php public/index.php
 *
 * In a web server's PHP and for console applications it behaves like Symfony's own runtime.
 */
class Runtime extends SymfonyRuntime
{
    private readonly Options $serverOptions;

    /** @param array<string, mixed> $options see Options::of() */
    public function __construct(array $options = [])
    {
        $this->serverOptions = Options::of($options);
        parent::__construct($options);
    }

    public function getRunner(?object $application): RunnerInterface
    {
        if ($application instanceof HttpKernelInterface && PHP_SAPI === 'cli') {
            if (extension_loaded('fermata')) {
                return new Runner($application, $this->serverOptions);
            }
            // Print this message, because Symfony's runtime would otherwise only print one page.
            file_put_contents('php://stderr', 'fermata: nothing is served: ' . Extension::missing() . PHP_EOL);
        }
        return parent::getRunner($application);
    }
}
