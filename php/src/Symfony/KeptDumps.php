<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\HttpKernel\DataCollector\DumpDataCollector;

/**
 * Prints the dumps of dd() with DebugBundle. DebugBundle collects dumps for the toolbar and prints them at the end of the
 * process, but a worker handles further requests. exit() in a handler skips `finally` but calls this destructor, and the output
 * becomes the response.
 *
 * @internal
 */
final class KeptDumps
{
    /** True if the kernel has returned or thrown. The destructor then prints nothing. False after exit(). */
    public bool $hasReturned = false;

    public function __construct(private readonly ContainerInterface $container) {}

    public function __destruct()
    {
        $collector = $this->hasReturned || !$this->container->initialized('data_collector.dump') ? null : $this->container->get('data_collector.dump');
        if (!$collector instanceof DumpDataCollector || $collector->getDumpsCount() === 0) {
            return;
        }
        if (!$this->container->hasParameter('kernel.runtime_mode.web') && !headers_sent()) {
            // Send plain text, because the collector selects its format by PHP's SAPI and writes plain text.
            header('Content-Type: text/plain; charset=UTF-8');
        }
        $collector->__destruct();
    }
}
