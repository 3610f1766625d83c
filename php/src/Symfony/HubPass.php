<?php

declare(strict_types=1);

namespace Fermata\Symfony;

use Fermata\Channels;
use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\{ContainerBuilder, Reference};
use Symfony\Component\Mercure\HubInterface;

/**
 * Registers Hub as the Mercure hub service if the application has configured none.
 *
 * @internal
 */
final class HubPass implements CompilerPassInterface
{
    public function process(ContainerBuilder $container): void
    {
        if (interface_exists(HubInterface::class) && !$container->has(HubInterface::class)) {
            $container->register(Hub::class, Hub::class)->setArguments([new Reference(Channels::class)]);
            $container->setAlias(HubInterface::class, Hub::class);
        }
    }
}
