<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Internal\Extension;
use Symfony\Component\HttpKernel\HttpKernelInterface;
use Symfony\Component\Runtime\{RunnerInterface, SymfonyRuntime};

/**
 * Serves a Symfony application without a change of its code: APP_RUNTIME='Fermata\Symfony\Runtime' php public/index.php
 *
 * Where PHP runs in a web server, and for console applications, it is Symfony's own runtime.
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
            // One page of it would be printed without a word.
            fwrite(STDERR, 'fermata: nothing is served: ' . Extension::missing() . PHP_EOL);
        }
        return parent::getRunner($application);
    }
}
