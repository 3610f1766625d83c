<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\HttpKernel\DataCollector\DumpDataCollector;

/**
 * Prints what dd() has shown with DebugBundle: that keeps it for the toolbar, and prints it when its process ends, which is no
 * end of a request here. exit() destroys this in a handler without a `finally`, and answers with what was printed.
 *
 * @internal
 */
final class KeptDumps
{
    public bool $hasReturned = false;

    public function __construct(private readonly ContainerInterface $container) {}

    public function __destruct()
    {
        $collector = $this->hasReturned || !$this->container->initialized('data_collector.dump') ? null : $this->container->get('data_collector.dump');
        if (!$collector instanceof DumpDataCollector || $collector->getDumpsCount() === 0) {
            return;
        }
        if (!$this->container->hasParameter('kernel.runtime_mode.web') && !headers_sent()) {
            // It goes by PHP's SAPI, and writes for a terminal.
            header('Content-Type: text/plain; charset=UTF-8');
        }
        $collector->__destruct();
    }
}
